"""Modules: a goal space, an outcome and a reward each, gathered in one table.

A world (envs.fetch, envs.point) turns names into `Module`s; `ModuleTable` lays their goal spaces side by
side in one goal vector of size G = sum of their sizes, of which a module's goal fills its own slots and
leaves zeros elsewhere (CURIOUS, "A Modular Multi-Goal Architecture"). A module index below 0 stands for HER's flat
goal, which asks for every module at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envs import module_check, module_names
from envs.errors import ArgumentError

RELEVANCE_THRESHOLD = 1e-3  # an outcome that moved less has not changed


def _unmoved(goal: jax.Array, obs: jax.Array) -> jax.Array:
    return goal


@dataclass(frozen=True)
class Guide:
    """Another module that may act in a module's place while it explores (RHER, arXiv 2208.00843). For one element.

    Attributes:
      module: the other module's name, such as push or push1; in a run without it there is no such guide.
      goal: obs [O], the module's own goal [d] -> [d'], the goal that the other module is given.
      acts: obs [O], the module's own goal [d] -> [] bool, whether it may act now. NaN must come out False.
    """

    module: str
    goal: Callable[[jax.Array, jax.Array], jax.Array]
    acts: Callable[[jax.Array, jax.Array], jax.Array]


@dataclass(frozen=True)
class Within:
    """Says a module is solved where its outcome is strictly within a distance of the goal: one kind of `Module.solved`.

    Gymnasium's environments take modules of one's own that are solved so, as their reward sees no observation.

    Attributes:
      outcome: obs [O] -> [d], the module's own.
      tolerance: the distance, in the outcome's unit.
    """

    outcome: Callable[[jax.Array], jax.Array]
    tolerance: float

    def __call__(self, obs: jax.Array, goal: jax.Array) -> jax.Array:
        """[O], [d] -> [] bool; False for NaN."""
        return distance_solved(self.outcome(obs), goal, self.tolerance)


@dataclass(frozen=True)
class Module:
    """One module M_i = (R_i, G_i). Functions take one element.

    Attributes:
      name: as on the command line and in metrics.
      goal_size: d, the dimension of G_i; 0 when the descriptor alone encodes the goal.
      outcome: obs [O] -> [d], the part of the state that the goal speaks of.
      sample_goal: key -> [d], uniform in G_i.
      solved: obs [O], goal [d] -> [] bool. A NaN distance must come out False.
      goal_at: goal [d], obs [O] -> [d], the goal as it stands now, for goals with moving parts.
      interest: obs [O] -> [k], what relevance compares; None for the outcome.
      achievable: False for distractors, which evaluation leaves out.
      guides: modules that may act in its place while it explores; the first that may act now does.
      mirror: goal [d] -> [d], the goal's mirror image in the world's plane of symmetry; None where it has none.
      meaning: what the goal's numbers are, with their unit, for the card of an exported policy.
      place: goal [d], obs [O] -> [2] or [3], where pictures mark the goal, NaN for nowhere; None where a goal of two or
        three numbers is that place, and one of another size is not marked.
      radius: how far from that place the ball reaches that pictures draw, in the world's unit of length; None for the
        distance within which the world's own modules are solved.
    """

    name: str
    goal_size: int
    outcome: Callable[[jax.Array], jax.Array]
    sample_goal: Callable[[jax.Array], jax.Array]
    solved: Callable[[jax.Array, jax.Array], jax.Array]
    goal_at: Callable[[jax.Array, jax.Array], jax.Array] = _unmoved
    interest: Callable[[jax.Array], jax.Array] | None = None
    achievable: bool = True
    guides: tuple[Guide, ...] = ()
    mirror: Callable[[jax.Array], jax.Array] | None = None
    meaning: str = ""
    place: Callable[[jax.Array, jax.Array], jax.Array] | None = None
    radius: float | None = None

    @property
    def judged_by_outcome(self) -> bool:
        """Says whether outcome and goal alone decide: `solved` is `Within` of the outcome, and the goal stays."""
        within = isinstance(self.solved, Within) and self.solved.outcome == self.outcome
        return within and self.goal_at is _unmoved


@dataclass(frozen=True)
class Registration:
    """A user's module: how to build it for a world's observation layout, and how many cubes it needs."""

    build: Callable[[Any], Module]
    cubes: int


_REGISTRY: dict[str, Registration] = {}


def register(name: str, build: Callable[[Any], Module], cubes: int = 1) -> None:
    """Makes a module of your own available under a name.

    Args:
      name: how lists of modules name it; letters, digits, - and _ (no comma).
      build: observation layout -> Module of that name.
      cubes: number of cubes that its scene needs.
    Raises:
      ArgumentError: on a name with other characters, on `all`, or on one of the worlds' own modules.
    """
    if not name or not name.replace("_", "").replace("-", "").isalnum():
        raise ArgumentError("name", "use letters, digits, - and _ only", name)
    if name == "all":
        raise ArgumentError("name", "stands for every module of a run; take another name", name)
    if module_names.is_built_in(name):
        raise ArgumentError(
            "name", f"the worlds have a module of this name; take another name, such as my-{name}", name
        )
    _REGISTRY[name] = Registration(build, cubes)


def registered() -> Mapping[str, Registration]:
    """The modules registered so far."""
    return dict(_REGISTRY)


def distance_solved(outcome: jax.Array, target: jax.Array, tolerance: float) -> jax.Array:
    """[..., n], [..., n] -> [...] bool: strictly within the tolerance (metres); False for NaN. NumPy or JAX arrays."""
    return norm(outcome - target) < tolerance


def norm(vector: jax.Array) -> jax.Array:
    """[..., n] -> [...]: length of the last axis, computed by the library that the array belongs to."""
    return vector.__array_namespace__().linalg.norm(vector, axis=-1)


def list_names(modules: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the names in a list, or in a text with commas. Raises ArgumentError when there are none."""
    names = tuple(name.strip() for name in modules.split(",")) if isinstance(modules, str) else tuple(modules)
    if not names:
        raise ArgumentError("modules", "name at least one module")
    return names


def build_table(
    names: Sequence[str], layout: Any, build: Callable[[str], Module], distractor: Callable[[int], Module]
) -> "ModuleTable":
    """Gathers a world's modules: those named, registered ones among them, then the layout's distractors.

    Args:
      build: a name of the world's own -> its module.
      distractor: a number from 1 -> the module of that distractor.
    Raises:
      ArgumentError: when a module is named twice, `build` refuses a name, or a part of a registered module is wrong.
    """
    modules = [_build_registered(name, layout) if name in _REGISTRY else build(name) for name in names]
    table = ModuleTable((*modules, *(distractor(k) for k in range(1, layout.num_distractors + 1))))
    module_check.check_guides([m for m in modules if m.name in _REGISTRY], table, layout.size)
    return table


def _build_registered(name: str, layout: Any) -> Module:
    module = module_check.build(name, _REGISTRY[name].build, layout)
    if not isinstance(module, Module):
        kind = type(module).__name__
        raise ArgumentError("modules", f"{name}: its function returns {kind}; return an envs.modules.Module")
    if module.name != name:
        raise ArgumentError("modules", f"{name}: the module's own name is {module.name!r}; give both the same name")
    if not isinstance(module.guides, tuple) or not all(isinstance(guide, Guide) for guide in module.guides):
        raise ArgumentError("modules", f"{name}: guides must be a tuple of envs.modules.Guide, such as (Guide(...),)")
    for guide in module.guides:
        if not isinstance(guide.module, str):
            raise ArgumentError("modules", f"{name}: its guide names {guide.module!r}; give a module's name, a text")
        if guide.module not in _REGISTRY and not module_names.is_built_in(guide.module):
            raise ArgumentError(
                "modules",
                f"{name}: its guide names {guide.module!r}, which is no module; name one such as reach, or register it",
            )
    module_check.check(module, layout.size)
    return module


@dataclass(frozen=True, eq=False)
class ModuleTable:
    """The modules of a run, with their goal spaces side by side. See curious_jax.types.ModuleTable.

    Attributes:
      modules: in index order.
      placement: goal [G], module [], first observation of the episode [O] -> [G], the goal as drawn, moved to where it
        belongs in that episode; None in worlds whose episodes all start in one place.
    """

    modules: tuple[Module, ...]
    placement: Callable[[jax.Array, jax.Array, jax.Array], jax.Array] | None = None

    def __post_init__(self) -> None:
        names = [m.name for m in self.modules]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError("modules", f"{name} is named twice; name each module once")

    @property
    def names(self) -> tuple[str, ...]:
        """Module names, in index order."""
        return tuple(m.name for m in self.modules)

    @property
    def achievable(self) -> tuple[bool, ...]:
        """Says of each module whether it can be solved at all."""
        return tuple(m.achievable for m in self.modules)

    @property
    def meanings(self) -> tuple[str, ...]:
        """Says of each module what its goal's numbers are; empty where nobody said."""
        return tuple(m.meaning for m in self.modules)

    @property
    def num_modules(self) -> int:
        """M."""
        return len(self.modules)

    @property
    def goal_size(self) -> int:
        """G, the sum of the modules' goal sizes."""
        return sum(m.goal_size for m in self.modules)

    @property
    def slots(self) -> tuple[slice, ...]:
        """Each module's slots in the goal vector."""
        ends = np.cumsum([0] + [m.goal_size for m in self.modules])
        return tuple(slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True))

    @property
    def slot_module(self) -> np.ndarray:
        """[G] int32: the module that owns each slot."""
        return np.repeat(np.arange(self.num_modules, dtype=np.int32), [m.goal_size for m in self.modules])

    def mask(self, module: jax.Array) -> jax.Array:
        """[...] -> [..., G] bool: the module's slots, all of them for the flat goal."""
        module = jnp.asarray(module)[..., None]
        return (jnp.asarray(self.slot_module) == module) | (module < 0)

    def descriptor(self, module: jax.Array) -> jax.Array:
        """[...] -> [..., M] float32: one-hot m_d, zeros for the flat goal."""
        return jax.nn.one_hot(module, self.num_modules)

    def outcomes(self, obs: jax.Array) -> jax.Array:
        """[O] -> [G]: every module's outcome in its own slots."""
        return _concatenate([m.outcome(obs) for m in self.modules])

    def relevant(self, first: jax.Array, last: jax.Array) -> jax.Array:
        """[O], [O] -> [M] bool: did some coordinate of outcome i move by more than 1e-3?

        A module with neither goal nor `interest` has nothing to compare: every episode is relevant to it.
        """
        return jnp.stack([self._moved(m, first, last) for m in self.modules])

    @staticmethod
    def _moved(module: Module, first: jax.Array, last: jax.Array) -> jax.Array:
        interest = module.interest or module.outcome
        before, after = (jnp.asarray(interest(obs), jnp.float32) for obs in (first, last))
        change = jnp.abs(after - before)
        return jnp.any(change > RELEVANCE_THRESHOLD) if change.size else jnp.array(True)

    def sample_goal(self, key: jax.Array, module: jax.Array) -> jax.Array:
        """key, [] -> [G]: a goal uniform in G_i, zero outside the module's slots."""
        keys = jax.random.split(key, self.num_modules)
        goal = _concatenate([m.sample_goal(k) for m, k in zip(self.modules, keys, strict=True)])
        return jnp.where(self.mask(module), goal, 0.0)

    def place_goal(self, goal: jax.Array, module: jax.Array, first: jax.Array) -> jax.Array:
        """[G], [], [O] -> [G]: a goal as `sample_goal` draws it, moved to where an episode that begins so has it."""
        return goal if self.placement is None else self.placement(goal, module, first)

    def goal_at(self, goal: jax.Array, module: jax.Array, obs: jax.Array) -> jax.Array:
        """[G], [], [O] -> [G]: the goal as it stands now, moving parts rebuilt from the observation."""
        now = _concatenate([m.goal_at(goal[s], obs) for m, s in zip(self.modules, self.slots, strict=True)])
        return jnp.where(self.mask(module), now, 0.0)

    def reward(self, obs: jax.Array, goal: jax.Array, module: jax.Array) -> jax.Array:
        """[O], [G], [] -> []: R_i, 0 when solved and -1 otherwise; the flat goal is when every module is."""
        solved = jnp.stack([m.solved(obs, goal[s]) for m, s in zip(self.modules, self.slots, strict=True)])
        return jnp.where(jnp.where(module < 0, solved.all(), solved[module]), 0.0, -1.0)

    def guide(self, obs: jax.Array, goal: jax.Array, module: jax.Array) -> tuple[jax.Array, jax.Array]:
        """[O], [G], [] -> ([] int32, [G]): who may act in the module's place now, and with what goal; else itself."""
        acting, asked = jnp.asarray(module, jnp.int32), goal
        for number, (own, slots) in enumerate(zip(self.modules, self.slots, strict=True)):
            for guide in reversed(own.guides):
                name = module_names.canonical(guide.module)
                if name not in self.names:
                    continue
                other = self.names.index(name)
                acts = (module == number) & guide.acts(obs, goal[slots])
                now = self.modules[other].goal_at(guide.goal(obs, goal[slots]), obs)
                given = jnp.zeros_like(goal).at[self.slots[other]].set(now)
                acting, asked = jnp.where(acts, other, acting), jnp.where(acts, given, asked)
        return acting, asked

    @property
    def moving(self) -> tuple[bool, ...]:
        """Says of each module whether its goals stand elsewhere than they were drawn: placed, or moved by `goal_at`."""
        return tuple(self.placement is not None or m.goal_at is not _unmoved for m in self.modules)

    def place(self, index: int, goal: Any, obs: Any) -> Any:
        """[d], [O] -> [2] or [3]: where pictures mark a goal of the module of this index; else the goal itself."""
        place = self.modules[index].place
        return goal if place is None else place(goal, obs)

    @property
    def radii(self) -> tuple[float | None, ...]:
        """Gives the radius of the ball around each module's goal in pictures; None for the world's own tolerance."""
        return tuple(m.radius for m in self.modules)

    def mirror(self, goal: jax.Array, module: jax.Array) -> jax.Array:
        """[G], [] -> [G]: the goal's mirror image; zero outside the module's slots."""
        parts = [(m.mirror or _keep)(goal[s]) for m, s in zip(self.modules, self.slots, strict=True)]
        return jnp.where(self.mask(module), _concatenate(parts), 0.0)

    @property
    def without_mirror(self) -> tuple[str, ...]:
        """The modules whose goals have no mirror image."""
        return tuple(m.name for m in self.modules if m.mirror is None and m.goal_size)


def _keep(goal: jax.Array) -> jax.Array:
    return goal


def _concatenate(parts: Sequence[jax.Array]) -> jax.Array:
    return jnp.concatenate([jnp.asarray(p, jnp.float32) for p in parts]) if parts else jnp.zeros(0)
