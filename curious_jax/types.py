"""Defines the shapes, records and protocols that the library shares.

Axes, used in every shape comment of the library:
  S seeds · E environments · T control steps · B batch · M modules
  O observation · G goal (all modules' slots side by side) · A action · W result window

A module is an int32 index into the module table; FLAT (-1) stands for the flat goal of HER, which asks
for every module at once.
"""

import enum
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
from flax import struct

FLAT = -1

Policy = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
"""(obs [E, O], goal [E, G], module [E]) -> action [E, A]."""


class Status(enum.StrEnum):
    """The state of a run, as summary.json says it."""

    RUNNING = "running"
    COMPLETED = "completed"
    TARGET_REACHED = "target_reached"
    INTERRUPTED = "interrupted"
    DIVERGED = "diverged"


@struct.dataclass
class Episode:
    """Whole episodes, as collected by one batch of environments."""

    obs: jax.Array  # [E, T+1, O] float32
    action: jax.Array  # [E, T, A] float32 in [-1, 1]
    goal: jax.Array  # [E, G] float32, zero outside the module's slots
    module: jax.Array  # [E] int32
    success: jax.Array  # [E] bool, solved at the last step
    valid: jax.Array  # [E] bool, every observation finite and inside the workspace, no contact lost


@struct.dataclass
class Transition:
    """A training batch, after substitution."""

    obs: jax.Array  # [B, O]
    action: jax.Array  # [B, A]
    reward: jax.Array  # [B] 0 or -1
    next_obs: jax.Array  # [B, O]
    goal: jax.Array  # [B, G] as it stands at obs
    next_goal: jax.Array  # [B, G] as it stands at next_obs (a stack goal follows its cube)
    module: jax.Array  # [B] int32


class ModuleTable(Protocol):
    """The modules of a run: goal spaces G_i, outcomes and rewards R_i. Methods take one element; vmap them."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def achievable(self) -> tuple[bool, ...]: ...  # False for distractors; evaluation leaves those out

    @property
    def meanings(self) -> tuple[str, ...]: ...  # what each module's goal is, with its unit; empty where not said

    @property
    def num_modules(self) -> int: ...  # M

    @property
    def goal_size(self) -> int: ...  # G

    @property
    def slots(self) -> tuple[slice, ...]: ...  # each module's slots in the goal vector

    @property
    def slot_module(self) -> Any: ...  # [G] int32, the module that owns each slot

    def mask(self, module: jax.Array) -> jax.Array:
        """[...] -> [..., G] bool: the module's slots (all of them for FLAT)."""
        ...

    def descriptor(self, module: jax.Array) -> jax.Array:
        """[...] -> [..., M]: one-hot m_d, zeros for FLAT."""
        ...

    def outcomes(self, obs: jax.Array) -> jax.Array:
        """[O] -> [G]: every module's outcome, each in its own slots."""
        ...

    def relevant(self, first: jax.Array, last: jax.Array) -> jax.Array:
        """[O], [O] -> [M] bool: did outcome i change between the two observations?"""
        ...

    def sample_goal(self, key: jax.Array, module: jax.Array) -> jax.Array:
        """key, [] -> [G]: uniform in the module's goal space, zero elsewhere."""
        ...

    def guide(self, obs: jax.Array, goal: jax.Array, module: jax.Array) -> tuple[jax.Array, jax.Array]:
        """[O], [G], [] -> ([] int32, [G]): who may act in the module's place now, and with what goal; else itself."""
        ...

    def mirror(self, goal: jax.Array, module: jax.Array) -> jax.Array:
        """[G], [] -> [G]: the goal's mirror image."""
        ...

    @property
    def radii(self) -> tuple[float | None, ...]: ...  # of the balls around goals in pictures; None: the world's own

    @property
    def moving(self) -> tuple[bool, ...]: ...  # whether a module's goals stand elsewhere than they were drawn

    @property
    def without_mirror(self) -> tuple[str, ...]: ...  # modules whose goals have no mirror image

    def place(self, index: int, goal: Any, obs: Any) -> Any:
        """[d], [O] -> [2] or [3]: where pictures mark a goal of one module; a goal of another size is not marked."""
        ...

    def goal_at(self, goal: jax.Array, module: jax.Array, obs: jax.Array) -> jax.Array:
        """[G], [], [O] -> [G]: the goal as it stands now (moving parts rebuilt from the observation)."""
        ...

    def reward(self, obs: jax.Array, goal: jax.Array, module: jax.Array) -> jax.Array:
        """[O], [G], [] -> []: 0 when solved, -1 otherwise; NaN is never solved."""
        ...


class Layout(Protocol):
    """The places of things in the observation; cube k counts from 1."""

    @property
    def num_cubes(self) -> int: ...

    def cube_position(self, k: int) -> slice: ...

    def cube_relative_position(self, k: int) -> slice: ...

    def table(self) -> dict[str, slice]: ...  # name -> place, for the whole observation in order

    def units(self) -> dict[str, str]: ...  # name -> unit


class EnvState(Protocol):
    """The part of an environment's state that the learner reads."""

    @property
    def obs(self) -> jax.Array: ...  # [O]

    @property
    def overflow(self) -> jax.Array: ...  # [] bool: a physics buffer ran out, the result cannot be trusted


class Env(Protocol):
    """One environment of fixed episode length; vmap reset and step over any leading axes."""

    @property
    def modules(self) -> ModuleTable: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def obs_size(self) -> int: ...  # O

    @property
    def action_size(self) -> int: ...  # A; the last number of an action is the gripper's

    @property
    def action_meaning(self) -> tuple[str, ...]: ...  # [A], what each number of an action asks for

    @property
    def control_period(self) -> float | None: ...  # s of a control step; None in a world without time

    @property
    def episode_length(self) -> int: ...  # T

    @property
    def obs_bound(self) -> float: ...  # |obs| beyond this has left the workspace

    @property
    def physics_name(self) -> str: ...  # c, jax or warp; none where there is no choice

    @property
    def physics_steps_per_step(self) -> int: ...

    @property
    def physics_bytes_per_world(self) -> int: ...  # about; 0 without buffers

    def reset(self, key: jax.Array) -> EnvState:
        """Starts an episode, as a function of the key alone."""
        ...

    def step(self, state: Any, action: jax.Array) -> EnvState:
        """Makes one control step of a state that reset or step returned."""
        ...

    def mirror(self, obs: jax.Array) -> jax.Array:
        """[O] -> [O]: the observation in the world's plane of symmetry."""
        ...

    def mirror_action(self, action: jax.Array) -> jax.Array:
        """[A] -> [A]: the action in the same plane."""
        ...

    def with_worlds(self, num_worlds: int) -> "Env":
        """The same environment with physics for num_worlds worlds, all vmapped axes together; call it before step."""
        ...


class Learner(NamedTuple):
    """An off-policy learner as pure functions, in optax's manner."""

    init: Callable[[jax.Array], Any]  # key -> state
    # The state has the actor's parameters as `actor`; they alone act, are averaged, kept and exported.
    act: Callable[[Any, jax.Array], jax.Array]  # state.actor, inputs [..., I] -> action [..., A]
    # One gradient step; what it returns beside the state is critic_loss, actor_loss and q_mean.
    update: Callable[[Any, "LearnerBatch"], tuple[Any, dict[str, jax.Array]]]
    end_cycle: Callable[[Any], Any]  # what happens once a cycle (target averaging of the paper preset)
    # For --estimator plr.
    td_error: Callable[[Any, "LearnerBatch"], jax.Array] | None = None  # state, batch -> |TD error| [B], without noise
    arrangement: Any = None  # learner.packed.Arrangement: how the state lies during a cycle's updates; None: as it is


@struct.dataclass
class LearnerBatch:
    """A batch as networks see it: normalised inputs, no modules and goals left to interpret."""

    inputs: jax.Array  # [B, I] of obs, goal, module descriptor
    action: jax.Array  # [B, A]
    reward: jax.Array  # [B]
    next_inputs: jax.Array  # [B, I]
