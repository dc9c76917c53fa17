"""Our worlds as brax environments, for brax's own trainers. Importing this file registers them.

    from brax import envs as brax_envs
    from brax.training.agents.sac import train as sac

    import envs.brax_env

    sac.train(brax_envs.get_environment("curious_fetch_reach"), num_timesteps=100_000, episode_length=50, ...)

Observations are [s, g, m_d] of the paper: observation, goal, one-hot module. Reward is 0 when solved and -1 otherwise,
or, with `dense=True`, minus the distance in metres between outcome and goal; brax's trainers have no hindsight.
`metrics["success"]` is 1 when a goal becomes solved and -1 when it no longer is. So its sum over an episode, which brax
reports as `eval/episode_success`, is 1 when the last step is solved and 0 otherwise (with an action_repeat of 1).
`metrics["overflow"]` is 1 when an episode's physics first runs out of contact buffers, so that contacts are lost and
what follows is wrong; `eval/episode_overflow` is then the share of such episodes, which ought to be 0 (with an
action_repeat of 1, too).

brax's automatic reset puts every episode back to one cached first state, goal included. Here each step puts a new one
into that cache, so that starts, goals and modules are drawn for every episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

try:
    from brax import envs as brax_envs
    from brax.envs.base import Env, State
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('envs.brax_env needs brax: pip install "curious_jax[brax]"') from error

import envs
from envs.compat import brax as compat

NAMES = {  # brax name -> modules
    "curious_fetch": ("reach", "push", "pnp", "stack"),
    "curious_fetch_reach": ("reach",),
    "curious_fetch_push": ("push",),
    "curious_fetch_pick_and_place": ("pnp",),
    "curious_fetch_stack": ("stack",),
}


@flax.struct.dataclass
class Asked:
    """One world and what is asked of it; brax's `pipeline_state`."""

    world: Any  # the environment's own state
    module: jax.Array  # [] int32
    goal: jax.Array  # [G], as drawn
    solved: jax.Array  # [] 1.0 when the last step was, else 0.0


class CuriousBraxEnv(Env):
    """The Fetch arm (or the point probe), asked for one of its modules in each episode. Methods are for one world.

    Keys are raw (jax.random.PRNGKey), as brax's wrappers want them. Episodes have no end of their own: brax's
    EpisodeWrapper ends them, after 50 steps in the paper.

    Args:
      modules, distractors, physics, start, world: as for envs.make.
      dense: reward is minus the distance to the goal.
      num_worlds: sizes the buffers of warp physics, for which brax's num_envs and num_eval_envs have to be the same.
    """

    def __init__(
        self, modules: Sequence[str] = NAMES["curious_fetch"], dense: bool = False, num_worlds: int = 1, **options: Any
    ):
        self.env = envs.make(modules=modules, **options).with_worlds(num_worlds)
        self.dense = dense

    def reset(self, rng: jax.Array) -> State:
        """The start of an episode: cubes, module and goal drawn from a raw key [2]."""
        key_world, key_module, key_goal, key_next = jax.random.split(rng, 4)
        world: Any = self.env
        modules, draws_starts = world.modules, getattr(world, "mixture", None) is not None
        module = jax.random.randint(key_module, (), 0, modules.num_modules)
        state = world.reset_for(key_world, module) if draws_starts else world.reset(key_world)
        goal = modules.place_goal(modules.sample_goal(key_goal, module), module, state.obs)
        zero = jnp.zeros(())
        asked = Asked(world=state, module=module, goal=goal, solved=zero)
        metrics = {"success": zero, "overflow": zero}
        return State(asked, self._observe(asked), zero, zero, metrics, {"next_episode": key_next})

    def step(self, state: State, action: jax.Array) -> State:
        """One control step of 0.04 s; a world that diverges is done."""
        asked = state.pipeline_state
        before, world = asked.world.overflow, self.env.step(asked.world, action)
        overflow = jnp.where(world.overflow & ~before, 1.0, 0.0)
        asked = asked.replace(world=world)
        obs = self._observe(asked)
        sound = jnp.isfinite(obs).all()
        success, reward = self._judge(asked)
        success = jnp.where(sound, success, 0.0)
        change, asked = success - asked.solved, asked.replace(solved=success)
        info = dict(state.info)
        key, info["next_episode"] = jax.random.split(info["next_episode"])
        if "first_obs" in info:  # the cache of brax's AutoResetWrapper
            first = self.reset(key)
            info |= {"first_obs": first.obs, "first_pipeline_state": first.pipeline_state}
        return state.replace(
            pipeline_state=asked,
            obs=jnp.where(sound, obs, 0.0),
            reward=jnp.where(sound, reward, -1.0),
            done=jnp.where(sound, 0.0, 1.0),
            metrics={**state.metrics, "success": change, "overflow": overflow},
            info=info,
        )

    @property
    def observation_size(self) -> int:
        """O + G + M."""
        return self.env.obs_size + self.env.modules.goal_size + self.env.modules.num_modules

    @property
    def action_size(self) -> int:
        """A."""
        return self.env.action_size

    @property
    def backend(self) -> str:
        """The physics: c, jax or warp."""
        return self.env.physics_name

    def _observe(self, asked: Asked) -> jax.Array:
        modules, obs = self.env.modules, asked.world.obs
        goal = modules.goal_at(asked.goal, asked.module, obs)
        return jnp.concatenate([obs, goal, modules.descriptor(asked.module)])

    def _judge(self, asked: Asked) -> tuple[jax.Array, jax.Array]:
        """(solved as 1.0 or 0.0, reward)."""
        modules, obs = self.env.modules, asked.world.obs
        goal = modules.goal_at(asked.goal, asked.module, obs)
        sparse = modules.reward(obs, goal, asked.module)
        mask = modules.mask(asked.module)
        outcome = jnp.where(mask, modules.outcomes(obs), 0.0)
        # A module without a goal of numbers has no distance to it.
        reward = jnp.where(mask.any(), -jnp.linalg.norm(outcome - goal), sparse) if self.dense else sparse
        return jnp.where(sparse == 0.0, 1.0, 0.0), reward


def _entry(default: tuple[str, ...]) -> Any:
    """Makes the function that brax calls to make the environment of a name."""

    def make(modules: Sequence[str] = default, **options: Any) -> CuriousBraxEnv:
        return CuriousBraxEnv(modules, **options)

    return make


compat.apply()
for _name, _modules in NAMES.items():
    brax_envs.register_environment(_name, _entry(_modules))
