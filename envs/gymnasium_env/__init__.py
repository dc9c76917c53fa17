"""Our worlds as Gymnasium environments with goals, for other people's trainers. Importing this package registers them.

    import gymnasium
    import envs.gymnasium_env

    gymnasium.make("CuriousFetchPush-v0", render_mode="rgb_array")
    gymnasium.make("CuriousFetch-v0", modules=("reach", "push2"), distractors=2, start="mixed", reward_type="dense")
    gymnasium.make_vec("CuriousFetchPush-v0", num_envs=2048, physics="warp")

Single environments run on C MuJoCo and NumPy, several times faster than a compiled call per step would; the vector
environment runs on any physics backend. Observations are dicts of `observation`, `achieved_goal` and `desired_goal`;
reward is 0 when solved and -1 otherwise, or dense; `compute_reward` gives it for other goals, any number at a time, so
that hindsight replay works.
"""

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('envs.gymnasium_env needs gymnasium: pip install "curious_jax[gymnasium]"') from error

from envs.fetch import constants as c
from envs.gymnasium_env.single import ALL_MODULES, CuriousFetchEnv
from envs.gymnasium_env.vector import CuriousFetchVectorEnv

__all__ = ["IDS", "CuriousFetchEnv", "CuriousFetchVectorEnv"]

IDS = {  # id -> modules
    "CuriousFetch-v0": ALL_MODULES,
    "CuriousFetchReach-v0": ("reach",),
    "CuriousFetchPush-v0": ("push",),
    "CuriousFetchPickAndPlace-v0": ("pnp",),
    "CuriousFetchStack-v0": ("stack",),
}

for _id, _modules in IDS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(
            _id,
            entry_point="envs.gymnasium_env:CuriousFetchEnv",
            vector_entry_point="envs.gymnasium_env:CuriousFetchVectorEnv",
            max_episode_steps=c.EPISODE_LENGTH,
            kwargs={"modules": _modules},
        )
