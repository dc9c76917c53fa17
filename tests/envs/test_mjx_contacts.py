"""Contacts and rows of the jax backend against those of mjx itself, and what moves which body against C MuJoCo."""

import jax
import mujoco
import numpy as np
import pytest
from mujoco import mjx

from envs.fetch import scene
from envs.physics import mjx_contacts, mjx_tree


def test_moving_dofs_are_the_columns_of_c_mujocos_jacobians_that_are_not_zero():
    model = scene.build_model(1)
    data, moves = mujoco.MjData(model), mjx_tree.moving_dofs(model)
    data.qpos[:7] += 0.1
    mujoco.mj_forward(model, data)
    for body in range(model.nbody):
        moved, turned = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jacBody(model, data, moved, turned, body)
        np.testing.assert_array_equal(moves[body], (np.abs(moved) + np.abs(turned)).max(axis=0) > 1e-9)


def test_scenes_with_other_constraints_are_refused():
    mjx_contacts.check_model(scene.build_model(2))
    text = '<mujoco><worldbody><body><freejoint/><geom size="1" condim="1"/></body></worldbody></mujoco>'
    with pytest.raises(ValueError, match="contacts with friction"):
        mjx_contacts.check_model(mujoco.MjModel.from_xml_string(text))


@pytest.mark.slow
def test_rows_are_mjxs_own():
    """Cubes inside the table, the floor, each other and a finger, a hand away from its weld, a joint at its limit."""
    model = scene.build_model(2)
    moves, put, blank = mjx_tree.moving_dofs(model), mjx.put_model(model, impl="jax"), mjx.make_data(model)

    @jax.jit
    def both(qpos, qvel, mocap):
        data = blank.replace(qpos=qpos, qvel=qvel, mocap_pos=mocap)
        theirs = mjx.fwd_position(put, data)
        return theirs, mjx_contacts.make_rows(put, mjx_contacts.collide(put, theirs), moves)

    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    mujoco.mj_forward(model, data)
    cubes = [model.jnt_qposadr[model.body(f"cube{k}").jntadr[0]] for k in (1, 2)]
    finger = data.body("right_finger_link").xpos
    places = [data.qpos[cubes[0] : cubes[0] + 3] - [0, 0, 1e-3], finger, [1.0, 0.2, 0.02], [1.3, 0.7, 0.42]]
    most = 0
    for first in places:
        for second in (places[0] + [0.01, 0.0, 0.049], np.asarray(first) + [0.02, 0.0, 0.04]):
            qpos, qvel = data.qpos.copy(), rng.normal(scale=0.3, size=model.nv)
            for cube, place in zip(cubes, (first, second), strict=True):
                qpos[cube : cube + 3] = place
                qpos[cube + 3 : cube + 7] = [1, *rng.normal(scale=0.05, size=3)]
            qpos[model.joint("right_finger_joint").qposadr[0]] = -0.01  # below its range
            theirs, ours = both(qpos, qvel, data.mocap_pos + 0.03)
            for name, tolerance in (("efc_J", 1e-6), ("efc_D", 0), ("efc_aref", 1e-3), ("efc_pos", 1e-6)):
                expected, got = getattr(theirs._impl, name), getattr(ours._impl, name)
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=tolerance, err_msg=name)
            jax.tree.map(np.testing.assert_array_equal, ours._impl.contact, theirs._impl.contact)
            most = max(most, int((np.asarray(theirs._impl.contact.dist) < 0).sum()))
    assert most >= 8
