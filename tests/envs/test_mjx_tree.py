"""Sums over the kinematic tree by matrices, against those of mjx itself."""

import jax
import mujoco
import numpy as np
import pytest
from mujoco import mjx

from envs.fetch import scene
from envs.physics import mjx_tree
from envs.physics.mjx import MjxPhysics

POSES = (
    "xpos",
    "xquat",
    "xmat",
    "xanchor",
    "xaxis",
    "xipos",
    "ximat",
    "geom_xpos",
    "geom_xmat",
    "site_xpos",
    "site_xmat",
)
FORCES = ("subtree_com", "cdof", "cvel", "cdof_dot", "qfrc_bias", "qfrc_passive", "qfrc_actuator", "actuator_force")
BRANCHES = """
<mujoco>
  <option gravity="0.1 0.2 -9.8"/>
  <worldbody>
    <body pos="0 0 1">
      <freejoint/><geom size=".1 .2 .3" type="box"/>
      <body pos=".3 0 0" euler="10 20 30"><joint name="slide" type="slide" axis="0 1 0" pos=".1 .2 .3" damping="2"/>
        <geom size=".1"/><site pos=".1 0 0"/>
        <body pos=".1 .1 0" euler="0 0 40"><joint name="hinge" pos="0 .1 .2" axis="1 0 0"/>
          <geom size=".05 .1" type="capsule" euler="5 6 7"/>
        </body>
        <body pos="0 .2 0"/>
      </body>
      <body pos="-.3 0 0"><joint axis="0 0 1"/><geom size=".07"/></body>
    </body>
    <body pos="1 0 0"><joint axis="0 1 0"/><geom size=".2"/></body>
    <body mocap="true" pos="0 0 3"/>
  </worldbody>
  <actuator>
    <position joint="slide" kp="30" gear="2" ctrlrange="-1 1"/><motor joint="hinge" gear="3"/>
  </actuator>
</mujoco>
"""


@pytest.mark.parametrize(
    "name", [pytest.param("the arm with two cubes", marks=pytest.mark.slow), "branches with every kind of joint"]
)
def test_the_stages_are_mjxs_own(name):
    model = scene.build_model(2) if "arm" in name else mujoco.MjModel.from_xml_string(BRANCHES)
    mjx_tree.check_model(model)
    tree, put = mjx_tree.Tree.create(model), mjx.put_model(model, impl="jax")
    blank = mjx.make_data(model, impl="jax")

    @jax.jit
    def both(**state):
        data = blank.replace(**state)
        theirs = mjx.crb(put, mjx.com_pos(put, mjx.kinematics(put, data)))
        theirs = mjx.fwd_actuation(put, mjx.fwd_velocity(put, mjx.transmission(put, theirs)))
        ours = mjx_tree.weigh(put, mjx_tree.center(put, mjx_tree.place(data, tree), tree), tree)
        return theirs, mjx_tree.actuate(mjx_tree.add_velocities(put, ours, tree), tree)

    rng = np.random.default_rng(0)
    for _ in range(3):
        shapes = {"qpos": model.nq, "qvel": model.nv, "ctrl": model.nu, "mocap_pos": (1, 3), "mocap_quat": (1, 4)}
        state = {name: rng.normal(0, 0.5, shape) for name, shape in shapes.items()}
        theirs, ours = both(**state)
        for name in POSES + FORCES:
            expected, got = getattr(theirs, name), getattr(ours, name)
            largest = np.abs(expected).max(initial=0)
            np.testing.assert_allclose(got, expected, atol=2e-6 * largest, err_msg=name)
        for name in ("cinert", "M"):
            expected, got = getattr(theirs._impl, name), getattr(ours._impl, name)
            np.testing.assert_allclose(got, expected, atol=2e-6 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize(
    "inside, line",
    [
        ('<joint/><joint axis="1 0 0"/>', "one joint at most"),
        ('<joint type="ball"/>', "one joint at most"),
        ('<joint name="a" actuatorfrcrange="-1 1"/>', "no limits of force"),
    ],
)
def test_other_trees_and_motors_are_refused(inside, line):
    text = f'<mujoco><worldbody><body>{inside}<geom size="1"/></body></worldbody></mujoco>'
    with pytest.raises(ValueError, match=line):
        mjx_tree.check_model(mujoco.MjModel.from_xml_string(text))


@pytest.mark.parametrize(
    "actuator",
    [
        '<muscle joint="a"/>',
        '<motor tendon="t"/>',
        '<motor joint="a" forcerange="-1 1"/>',
        '<damper joint="a" kv="1" ctrlrange="0 1"/>',
    ],
)
def test_other_actuators_are_refused(actuator):
    text = (
        '<mujoco><worldbody><body><joint name="a" range="-1 1"/><geom size="1"/></body></worldbody>'
        '<tendon><fixed name="t"><joint joint="a" coef="1"/></fixed></tendon>'
        f"<actuator>{actuator}</actuator></mujoco>"
    )
    with pytest.raises(ValueError, match="actuators of slides and hinges"):
        mjx_tree.check_model(mujoco.MjModel.from_xml_string(text))


def test_physics_that_is_switched_off_is_refused():
    model = scene.build_model(1)
    mjx_tree.check_model(model)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_GRAVITY
    with pytest.raises(ValueError, match="none of .*GRAVITY.* may be disabled"):
        mjx_tree.check_model(model)


def test_a_tpu_gets_the_same_program(monkeypatch):
    """Where mjx finds a TPU it takes sparse matrices, unless it is told not to."""
    programs = {}
    for platform in ("cpu", "tpu"):
        monkeypatch.setattr(jax, "default_backend", lambda platform=platform: platform)
        model = scene.build_model(2)
        shapes = [jax.ShapeDtypeStruct((n,), np.float32) for n in (model.nq, model.nv, model.nu, 3, 4)]
        programs[platform] = len(str(jax.make_jaxpr(MjxPhysics.create(model).control_step)(*shapes)))
    assert programs["cpu"] == programs["tpu"]


def test_a_subtree_s_mass_is_c_mujocos():
    for model in (scene.build_model(1), mujoco.MjModel.from_xml_string(BRANCHES)):
        np.testing.assert_allclose(mjx_tree.Tree.create(model).mass, model.body_subtreemass, rtol=1e-12)
