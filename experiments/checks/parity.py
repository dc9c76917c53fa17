"""Checks whether a physics backend does what C MuJoCo does.

    python -m experiments.checks.parity --physics warp --worlds 8 --out parity.json

Random hand motions that touch nothing, from the same starts, must agree within 1 mm; and the scripted
pick-and-place must bring its cube to the goal in as many worlds as on C, but for one in ten. Exit status 1 if not.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import envs
from curious_jax.cli import program
from curious_jax.cli.parser import OneLineParser
from envs.fetch import scripted

STEPS, TOLERANCE = 5, 1e-3  # control steps in the air; m
SCRIPT_STEPS, SOLVED, SHORTFALL = 50, 0.05, 0.1  # control steps of an episode; m; share of worlds


def play(physics: str, worlds: int) -> dict[str, Any]:
    """Run a backend; returns the gripper's way [T, E, 3] in the air, and which worlds [E] the script solves."""
    env = envs.make(modules=("pnp",), physics=physics).with_worlds(worlds)
    keys = jax.random.split(jax.random.key(0), worlds)
    start = jax.jit(jax.vmap(env.reset))(keys)
    actions = jax.random.uniform(jax.random.key(1), (STEPS, worlds, 4), minval=-0.5, maxval=0.5)
    actions = actions.at[..., 2].set(jnp.abs(actions[..., 2]))  # upwards, away from the cubes
    goals = start.obs[:, env.layout.gripper_position] + jax.random.uniform(
        keys[0], (worlds, 3), minval=-0.1, maxval=0.1
    )

    def air(state: Any) -> Any:
        return jax.lax.scan(lambda s, a: ((s := jax.vmap(env.step)(s, a)), s.obs), state, actions)

    def script(state: Any) -> Any:
        def step(carry, _):
            state, scripts = carry
            scripts, action = jax.vmap(lambda s, o, g: scripted.act(s, o, g, env.layout))(scripts, state.obs, goals)
            return (jax.vmap(env.step)(state, action), scripts), None

        scripts = jax.vmap(lambda _: scripted.init())(jnp.arange(worlds))
        return jax.lax.scan(step, (state, scripts), None, length=SCRIPT_STEPS)[0][0]

    _, obs = jax.jit(air)(start)
    last = jax.jit(script)(start)
    distance = jnp.linalg.norm(last.obs[:, env.layout.cube_position(1)] - goals, axis=1)
    return {
        "way": np.asarray(obs[..., env.layout.gripper_position]),
        "solved": np.asarray(distance < SOLVED),
        "overflow": bool(np.any(np.asarray(last.overflow))),
    }


def compare(physics: str, against: str, worlds: int) -> dict[str, Any]:
    """Compare two backends; returns the figures, and whether they agree."""
    got, expected = play(physics, worlds), play(against, worlds)
    off = float(np.abs(got["way"] - expected["way"]).max())  # NaN is not below the tolerance either
    rates = float(got["solved"].mean()), float(expected["solved"].mean())
    agrees = off < TOLERANCE and rates[0] >= rates[1] - SHORTFALL and not got["overflow"]
    return {
        "physics": physics,
        "against": against,
        "worlds": worlds,
        "gripper_off_mm": 1e3 * off,
        "script_solved": rates[0],
        "script_solved_against": rates[1],
        "overflow": got["overflow"],
        "agrees": agrees,
    }


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Run the program; returns its exit status."""
    parser = OneLineParser(prog="python -m experiments.checks.parity", description=(__doc__ or "").split("\n")[0])
    add, backends = parser.add_argument, ("c", "jax", "warp")
    add("--physics", default="warp", choices=backends, help="backend to check [default: warp]")
    add("--against", default="c", choices=backends, help="backend to compare with [default: c]")
    add("--worlds", type=int, default=64, help="worlds stepped side by side [default: 64]")
    add("--out", type=Path, help="write the figures as JSON here")
    given = parser.parse_args(argv)
    result = compare(given.physics, given.against, given.worlds)
    if given.out:
        given.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))
    return 0 if result["agrees"] else 1


if __name__ == "__main__":
    sys.exit(main())
