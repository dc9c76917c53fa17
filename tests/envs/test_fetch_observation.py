"""The observation's index table, and its angles."""

import jax.numpy as jnp
import numpy as np
import pytest

from envs.fetch import scene
from envs.fetch.observation import ObservationLayout, SensorLayout, observe, quaternion_to_euler

# Quaternion, and what mat2euler of gymnasium-robotics 1.4.2 makes of its matrix.
REFERENCE = [
    ([1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    ([0.8, 0.36, -0.48, 0.0], [1.118321, -0.875712, 0.569987]),
    ([0.5, -0.5, 0.5, 0.5], [-1.570796, 0.0, 1.570796]),
    ([0.1, 0.7, -0.1, 0.7], [1.570796, 1.287002, 1.570796]),
    ([0.70710678, 0.0, 0.70710678, 0.0], [0.0, 1.570796, 0.0]),  # the pole
    ([0.6, 0.64, 0.0, -0.48], [1.33959, -0.661625, -0.818385]),
]


@pytest.mark.parametrize("cubes, distractors", [(0, 0), (1, 0), (2, 0), (2, 3), (4, 7)])
def test_slices_tile_the_vector_exactly(cubes, distractors):
    layout = ObservationLayout(cubes, distractors)
    assert layout.size == 10 + 15 * cubes + 3 * distractors
    assert [i for s in layout.table().values() for i in range(layout.size)[s]] == list(range(layout.size))


def test_two_cubes_make_forty_numbers_in_the_order_of_the_specification():
    layout = ObservationLayout(2, 1)
    assert ObservationLayout(2, 0).size == 40
    table = {name: (s.start, s.stop) for name, s in layout.table().items()}
    assert table["gripper_position"] == (0, 3) and table["finger_velocity"] == (8, 10)
    assert table["cube1_position"] == (10, 13) and table["cube1_angular_velocity"] == (22, 25)
    assert table["cube2_relative_position"] == (28, 31) and table["distractor1_position"] == (40, 43)


@pytest.mark.parametrize("k", [0, 3, -1])
def test_an_index_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match="cube .* does not exist"):
        ObservationLayout(2, 0).cube_position(k)
    with pytest.raises(ValueError, match="distractor .* does not exist"):
        ObservationLayout(2, 0).distractor_position(k)


@pytest.mark.parametrize("quaternion, euler", REFERENCE)
def test_angles_are_those_of_gymnasium_robotics(quaternion, euler):
    unit = jnp.array(quaternion) / jnp.linalg.norm(jnp.array(quaternion))
    np.testing.assert_allclose(quaternion_to_euler(unit), euler, atol=1e-4)


def test_sensors_stand_where_the_layout_says():
    model, layout = scene.build_model(2), SensorLayout(2)
    assert layout.size == model.nsensordata
    for k in (1, 2):
        for part in ("position", "quaternion", "velocity", "angular_velocity"):
            sensor, place = model.sensor(f"cube{k}_{part}"), getattr(layout, f"cube_{part}")(k)
            assert (int(sensor.adr[0]), int(sensor.dim[0])) == (place.start, place.stop - place.start)
    for part in ("hand_position", "hand_quaternion", "gripper_position", "gripper_velocity"):
        assert int(model.sensor(part).adr[0]) == getattr(layout, part).start
    for i, side in enumerate(("right", "left")):
        assert int(model.sensor(f"{side}_finger_position").adr[0]) == layout.finger_position.start + i
        assert int(model.sensor(f"{side}_finger_velocity").adr[0]) == layout.finger_velocity.start + i


def test_velocities_are_per_control_step_and_relative_to_the_gripper():
    sensors, layout = SensorLayout(1), ObservationLayout(1, 1)
    data = jnp.zeros(sensors.size).at[sensors.cube_quaternion(1)].set(jnp.array([1.0, 0, 0, 0]))
    data = data.at[sensors.gripper_position].set(jnp.array([1.0, 2.0, 3.0]))
    data = data.at[sensors.gripper_velocity].set(jnp.array([1.0, 0.0, 0.0]))
    data = data.at[sensors.cube_position(1)].set(jnp.array([1.5, 2.0, 2.5]))
    data = data.at[sensors.cube_velocity(1)].set(jnp.array([3.0, 0.0, -1.0]))
    data = data.at[sensors.cube_angular_velocity(1)].set(jnp.array([0.0, 5.0, 0.0]))
    obs = observe(data, jnp.array([[7.0, 8.0, 9.0]]))
    expected = {
        "gripper_position": [1, 2, 3],
        "gripper_velocity": [0.04, 0, 0],
        "cube1_position": [1.5, 2, 2.5],
        "cube1_relative_position": [0.5, 0, -0.5],
        "cube1_euler": [0, 0, 0],
        "cube1_velocity": [0.08, 0, -0.04],
        "cube1_angular_velocity": [0, 0.2, 0],
        "distractor1_position": [7, 8, 9],
    }
    for name, value in expected.items():
        np.testing.assert_allclose(obs[layout.table()[name]], value, atol=1e-6, err_msg=name)
