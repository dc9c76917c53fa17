"""The MuJoCo model: sizes, names, what collides, and cubes that rest."""

import mujoco
import numpy as np
import pytest

from envs.fetch import constants as c
from envs.fetch import scene


@pytest.mark.parametrize("cubes", [0, 1, 2, 4])
def test_sizes_follow_the_number_of_cubes(cubes):
    model = scene.build_model(cubes)
    assert (model.nq, model.nv, model.nu, model.nmocap) == (10 + 7 * cubes, 10 + 6 * cubes, 2, 1)
    assert model.opt.timestep == c.PHYSICS_STEP


def test_a_negative_number_of_cubes_is_refused():
    with pytest.raises(ValueError, match="num_cubes"):
        scene.build_model(-1)


def test_everything_is_named():
    model = scene.build_model(2)
    for count, kind in [
        (model.nbody, model.body),
        (model.njnt, model.joint),
        (model.ngeom, model.geom),
        (model.nsite, model.site),
        (model.nu, model.actuator),
        (model.nsensor, model.sensor),
        (model.neq, model.equality),
        (model.ncam, model.cam),
        (model.nlight, model.light),
    ]:
        assert all(kind(i).name for i in range(count))


def test_only_boxes_and_the_floor_collide():
    model = scene.build_model(2)
    colliding = [model.geom(i) for i in range(model.ngeom) if model.geom_contype[i] | model.geom_conaffinity[i]]
    names = {geom.name for geom in colliding}
    assert names == {"floor", "table", "hand", "right_finger", "left_finger", "cube1", "cube2"}
    boxes = {geom.name for geom in colliding if int(geom.type[0]) == int(mujoco.mjtGeom.mjGEOM_BOX)}
    assert boxes == names - {"floor"}


def test_the_weld_is_the_identity():
    anchor_and_relative_position, quaternion = np.split(scene.build_model(0).eq_data[0, :10], [6])
    assert (anchor_and_relative_position == 0).all() and (quaternion == [1, 0, 0, 0]).all()


def test_a_cube_placed_at_rest_stays():
    model = scene.build_model(1)
    data = mujoco.MjData(model)
    start = data.joint("cube1_joint").qpos.copy()
    assert start[2] == c.CUBE_REST_HEIGHT
    mujoco.mj_step(model, data, nstep=1000)
    np.testing.assert_allclose(data.joint("cube1_joint").qpos[:3], start[:3], atol=1e-6)


def test_the_head_weighs_on_the_torso():
    # Torso, pan and tilt links of gymnasium-robotics' robot.xml.
    assert scene.build_model(0).body("torso_lift_link").mass[0] == pytest.approx(10.7796 + 2.2556 + 0.9087)


def test_cubes_fall_freely_but_for_a_linear_damping():
    model = scene.build_model(1)
    np.testing.assert_array_equal(model.dof_damping[-6:], [c.CUBE_DAMPING] * 6)
    assert not model.dof_dampingpoly.any()  # terms in higher powers of speed
