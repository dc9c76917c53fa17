"""The jax backend's solver finds what C MuJoCo's does, on C MuJoCo's own constraints."""

import functools

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from envs.fetch import scene
from envs.physics import mjx_solver

ROWS = 120  # C MuJoCo lists as many rows as there are; the rest of these have no stiffness
SCENES = 32


def pressed_scenes():
    """Two cubes, one a little inside the table or the other cube, thrown about: problems, and C MuJoCo's qacc."""
    model = scene.build_model(2)
    model.opt.iterations, model.opt.ls_iterations, model.opt.tolerance = 100, 100, 0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
    data, rng, problems, found = mujoco.MjData(model), np.random.default_rng(0), [], []
    cubes = [model.jnt_qposadr[model.body(f"cube{k}").jntadr[0]] for k in (1, 2)]
    for i in range(SCENES):
        mujoco.mj_resetData(model, data)
        data.qvel[:] = rng.normal(scale=0.3, size=model.nv)
        data.qpos[cubes[0] + 2] -= rng.uniform(0, 2e-3)
        if i % 2:  # the second on the first
            data.qpos[cubes[1] : cubes[1] + 3] = data.qpos[cubes[0] : cubes[0] + 3] + [0.01, 0, 0.049]
        mujoco.mj_forward(model, data)
        problems.append(read_problem(model, data))
        found.append(data.qacc.copy())
    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *problems), np.stack(found)


def read_problem(model, data):
    inertia, rows = np.zeros((model.nv, model.nv)), np.zeros((ROWS, model.nv))
    mujoco.mj_fullM(model, data, inertia)
    used = data.nefc
    assert 4 <= used <= ROWS
    rows[:used] = data.efc_J.reshape(used, model.nv) if not mujoco.mj_isSparse(model) else None
    stiffness, reference = np.zeros(ROWS), np.zeros(ROWS)
    stiffness[:used], reference[:used] = data.efc_D, data.efc_aref
    problem = (inertia, data.qacc_smooth.copy(), rows, stiffness, reference)
    return mjx_solver.Problem(*(x.astype(np.float32) for x in problem), np.arange(ROWS) < data.ne)


def test_it_finds_the_accelerations_that_c_mujoco_finds(optimised):
    problems, expected = pressed_scenes()
    with jax.default_matmul_precision("highest"):
        qacc, _ = jax.jit(jax.vmap(functools.partial(mjx_solver.minimise, steps=10, tolerance=1e-8)))(problems)
    assert np.abs(expected).max() > 50  # the cubes are pushed out
    np.testing.assert_allclose(qacc, expected, rtol=1e-3, atol=0.02)


def test_a_world_that_is_not_finite_ends_and_leaves_the_others_alone():
    problems, _ = pressed_scenes()
    solve = jax.jit(jax.vmap(functools.partial(mjx_solver.minimise, steps=10, tolerance=1e-8)))
    alone, _ = solve(problems)
    got, _ = solve(problems._replace(smooth=problems.smooth.at[3].set(jnp.nan)))
    others = np.arange(SCENES) != 3
    np.testing.assert_array_equal(got[others], alone[others])
    assert np.isnan(got[3]).all()


def test_scenes_with_other_constraints_are_refused():
    mjx_solver.check_model(scene.build_model(2))
    text = '<mujoco><worldbody><body><joint frictionloss="1"/><geom size="1"/></body></worldbody></mujoco>'
    with pytest.raises(ValueError, match="friction loss"):
        mjx_solver.check_model(mujoco.MjModel.from_xml_string(text))
