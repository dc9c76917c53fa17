"""Ways to say which modules are worth practising, a record of pure functions each (`protocol.Estimator`).

`--estimator NAME` chooses one, and `register` adds one of your own.
"""

from collections.abc import Callable

from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.learner.estimators import bayes, ema, model, plr, windows
from curious_jax.learner.estimators.protocol import Estimator as Estimator
from curious_jax.learner.estimators.protocol import Results as Results
from curious_jax.learner.estimators.protocol import tally as tally
from curious_jax.types import ModuleTable

Maker = Callable[[TrainConfig, ModuleTable], Estimator]

_MAKERS: dict[str, Maker] = {
    "competence": windows.competence,
    "ema": ema.make,
    "learnability": windows.learnability,
    "bayes": bayes.make,
    "plr": plr.make,
    "model": model.make,
    "uniform": windows.uniform,
    "order": windows.order,
}


def register(name: str, make: Maker) -> None:
    """Makes an estimator of your own available as `--estimator NAME`.

    Args:
      name: letters, digits, - and _ only, a letter first.
      make: config, module table -> Estimator.
    Raises:
      ConfigError: on a name with other characters.
    """
    if not name.replace("-", "_").isidentifier():
        raise ConfigError(f"estimator {name}: use letters, digits, - and _ only, a letter first")
    _MAKERS[name] = make


def make(config: TrainConfig, modules: ModuleTable) -> Estimator:
    """Makes the estimator that a config names.

    Raises:
      ConfigError: when no such estimator is registered.
    """
    name = config.curriculum.estimator
    if name not in _MAKERS:
        known = ", ".join(_MAKERS)
        raise ConfigError(
            f"--estimator {name}: must be one of {known}, or --import the Python module that registers it"
        )
    return _MAKERS[name](config, modules)
