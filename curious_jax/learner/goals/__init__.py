"""Ways to choose goals within a module, a record of pure functions each (`protocol.Sampler`).

`--goals NAME` chooses one, and `register` adds one of your own.
"""

from collections.abc import Callable

from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.learner.goals import alp_gmm, learnability, mega, riac, vds
from curious_jax.learner.goals.protocol import Sampler as Sampler
from curious_jax.types import ModuleTable

Maker = Callable[[TrainConfig, ModuleTable, int, int], Sampler]  # config, modules, input size I, action size A

_MAKERS: dict[str, Maker] = {
    "alp-gmm": alp_gmm.make,
    "riac": riac.make,
    "mega": mega.make,
    "vds": vds.make,
    "learnability": learnability.make,
}
UNIFORM = "uniform"  # what the environment's modules draw


def register(name: str, make: Maker) -> None:
    """Makes a goal sampler of your own available as `--goals NAME`.

    Args:
      name: letters, digits, - and _ only, a letter first.
      make: config, module table, sizes of the networks' input and of the action -> Sampler.
    Raises:
      ConfigError: on a name with other characters.
    """
    if not name.replace("-", "_").isidentifier():
        raise ConfigError(f"goals {name}: use letters, digits, - and _ only, a letter first")
    _MAKERS[name] = make


def make(config: TrainConfig, modules: ModuleTable, input_size: int, action_size: int) -> Sampler | None:
    """Makes the sampler that a config names; None for uniform goals.

    Raises:
      ConfigError: when no such sampler is registered.
    """
    name = config.curriculum.goals
    if name == UNIFORM:
        return None
    if name not in _MAKERS:
        known = ", ".join([UNIFORM, *_MAKERS])
        raise ConfigError(f"--goals {name}: must be one of {known}, or --import the module that registers it")
    return _MAKERS[name](config, modules, input_size, action_size)
