"""A hand-written pick-and-place policy: what the arm can do, without learning. For tests and pictures."""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp

from envs.fetch.observation import ObservationLayout

Array = jax.Array

ABOVE, DOWN, CLOSE, CARRY, RELEASE = range(5)

_GAIN = 10.0  # action per metre of error; 20 would ask for the whole error at once
_CLEARANCE = 0.08  # m, how far above cube or goal the gripper comes from
_NEAR = 0.01  # m
_CENTRED = 0.0005  # m, some of the grips that are further off let the cube creep twice as far
_CLOSING_STEPS = 3
_OPENING_STEPS = 3


@flax.struct.dataclass
class ScriptState:
    """The state of one environment's script."""

    phase: Array  # [] int32, ABOVE … RELEASE
    steps: Array  # [] int32, control steps spent in this phase


def init() -> ScriptState:
    """The script's start, for one environment."""
    return ScriptState(phase=jnp.int32(ABOVE), steps=jnp.int32(0))


def act(
    state: ScriptState, obs: Array, goal: Array, layout: ObservationLayout, cube: int = 1, stack: bool = False
) -> tuple[ScriptState, Array]:
    """Next script state and action [4] for one environment: bring `cube` (counted from 1) to `goal` [3] m.

    With `stack` the cube comes to its goal from above, is let go there, and the gripper rises and stays away;
    otherwise it is held at the goal.
    """
    gripper, position = obs[layout.gripper_position], obs[layout.cube_position(cube)]
    level = jnp.linalg.norm((goal - position)[:2]) < _NEAR
    via = goal + jnp.array([0.0, 0.0, _CLEARANCE]) * (stack & ~level)
    state = _next(state, gripper - position, goal - position, stack)

    rising = gripper + jnp.array([0.0, 0.0, _CLEARANCE]) * (state.steps >= _OPENING_STEPS)
    rising = rising.at[2].min(goal[2] + 2 * _CLEARANCE)
    error = jnp.select(
        [state.phase == ABOVE, state.phase == DOWN, state.phase == CLOSE, state.phase == CARRY],
        [position + jnp.array([0.0, 0.0, _CLEARANCE]) - gripper, position - gripper, jnp.zeros(3), via - position],
        rising - gripper,
    )
    holding = (state.phase == CLOSE) | (state.phase == CARRY)
    return state, jnp.append(jnp.clip(_GAIN * error, -1.0, 1.0), jnp.where(holding, -1.0, 1.0))


def _next(state: ScriptState, from_cube: Array, to_goal: Array, stack: bool) -> ScriptState:
    """The phase that the gripper's place relative to the cube [3], and the cube's to the goal [3], call for."""
    over = jnp.linalg.norm(from_cube[:2]) < _NEAR
    done = jnp.select(
        [state.phase == ABOVE, state.phase == DOWN, state.phase == CLOSE, state.phase == CARRY],
        [
            over & (from_cube[2] < _CLEARANCE + _NEAR),
            jnp.linalg.norm(from_cube) < _CENTRED,
            state.steps >= _CLOSING_STEPS - 1,
            stack & (jnp.linalg.norm(to_goal) < _NEAR / 2),
        ],
        False,
    )
    return ScriptState(phase=state.phase + done, steps=jnp.where(done, 0, state.steps + 1))
