"""The own physics step of the warp backend: what MuJoCo Warp's gives, in fewer launches."""

import mujoco
import numpy as np
import pytest

from envs.fetch import scene

wp = pytest.importorskip("warp")
WORLDS = 6


def test_a_subtree_is_a_range_of_bodies():
    from envs.physics import warp_step

    model = scene.build_model(3)
    last = warp_step.last_descendants(model)
    for body in range(model.nbody):
        own = [b for b in range(model.nbody) if body in _ancestors(model, b)]
        assert own == list(range(body, last[body] + 1))


def _ancestors(model, body):
    """The body, its parent, and so on to the world."""
    found = [body]
    while found[-1]:
        found.append(int(model.body_parentid[found[-1]]))
    return found


@pytest.mark.parametrize("change", ["integrator", "sleep"])
def test_other_scenes_are_refused(change):
    from envs.physics import warp_step

    model = scene.build_model(1)
    warp_step.check_model(model)
    if change == "sleep":
        model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
    else:
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    with pytest.raises(ValueError, match="Euler's integrator, and no tendons"):
        warp_step.check_model(model)


def test_a_step_is_mujoco_warps_own():
    """Positions, velocities and forces after one step and after ten, from moving arms beside falling cubes."""
    from mujoco.mjx.third_party import mujoco_warp as mjw

    from envs.physics import warp_step

    model = scene.build_model(2)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD
    rng = np.random.default_rng(0)
    velocities = rng.normal(0, 0.3, (WORLDS, model.nv)).astype(np.float32)
    with wp.ScopedDevice("cpu"):
        m = mjw.put_model(model)
        theirs, ours = (mjw.make_data(model, nworld=WORLDS, naconmax=24 * WORLDS, njmax=220) for _ in range(2))
        step = warp_step.make(model, m, ours)
        for d in (theirs, ours):
            d.qpos.assign(np.tile(model.qpos0, (WORLDS, 1)).astype(np.float32))
            d.qvel.assign(velocities)
        for number in range(10):
            mjw.step(m, theirs)
            step()
            for name in ("subtree_com", "cinert", "cdof", "M", "qfrc_bias", "qacc", "qvel", "qpos"):
                expected, got = getattr(theirs, name).numpy(), getattr(ours, name).numpy()
                largest = np.abs(expected).max()
                np.testing.assert_allclose(got, expected, atol=1e-5 * largest, err_msg=f"{name}, step {number}")
    assert np.abs(ours.qvel.numpy() - velocities).max() > 0.1  # they moved
