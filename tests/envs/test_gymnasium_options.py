"""What Gymnasium's environments draw where nothing but modules is asked for."""

import numpy as np

from envs.gymnasium_env import CuriousFetchEnv, CuriousFetchVectorEnv

NAMES = ("reach", "push", "pnp2", "stack")
DOWN = np.array([1.0, -0.5, -1.0, 0.3])


# Nothing that is asked for: what these environments drew before there were such options. The vectors here are of three
# worlds, most with two cubes and one distractor or none, so that they share their compiled programs' cache on disk.

EPISODES = [  # module, cube 1's x and y, goal, gripper after three steps
    ("stack", [1.4610566, 0.8318064], [1.2657992, 0.8147005, 0.475], [1.4352416, 0.7018523, 0.4403678]),
    ("pnp2", [1.1975973, 0.6199650], [1.1959529, 0.7930283, 0.7551386], [1.4333855, 0.7022091, 0.4451251]),
    ("reach", [1.2676084, 0.6150001], [1.4667521, 0.6295599, 0.6735113], [1.4352416, 0.7018523, 0.4403678]),
]


def test_without_options_an_environment_draws_what_it_always_drew():
    env = CuriousFetchEnv(NAMES)
    for number, (module, cube, goal, gripper) in enumerate(EPISODES):
        obs, info = env.reset(seed=None if number else 7)
        assert info == {"is_success": False, "module": module}
        np.testing.assert_allclose(obs["observation"][10:12], cube, atol=1e-6)
        np.testing.assert_allclose(obs["desired_goal"][env.goals.slots[module]][:3], goal, atol=1e-6)
        for _ in range(3):
            obs, reward, *_ = env.step(DOWN)
        np.testing.assert_allclose(obs["observation"][:3], gripper, atol=1e-4)
        assert reward == -1.0 and obs["observation"].shape == (40,) and obs["desired_goal"].shape == (19,)
    assert env.np_random.random() == 0.31251633634970166


def test_without_options_a_vector_draws_what_it_always_drew():
    env = CuriousFetchVectorEnv(3, ("reach", "stack"), physics="c", max_episode_steps=2)
    obs, infos = env.reset(seed=7)
    assert infos["module"].tolist() == ["stack"] * 3
    cubes = [[1.4750084, 0.8416328], [1.4816864, 0.7789345], [1.4393181, 0.8895738]]
    np.testing.assert_allclose(obs["observation"][:, 10:12], cubes, atol=1e-6)
    for _ in range(4):
        obs, reward, _, _, infos = env.step(np.tile(DOWN, (3, 1)))
    assert infos["module"].tolist() == ["reach", "stack", "reach"]
    places = [[1.3254229, 0.7504645, 0.8700321], [1.2089404, 0.8587175, 0.475], [1.4296986, 0.7857538, 0.4970954]]
    found = [obs["desired_goal"][e, env.goals.slots[name]][:3] for e, name in enumerate(infos["module"])]
    np.testing.assert_allclose(found, places, atol=1e-6)
    assert reward.dtype == float and reward.tolist() == [-1.0] * 3
    assert env.np_random.random() == 0.6125396042730308
