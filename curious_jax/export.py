"""python -m curious_jax.export RUN FOLDER: a run's policy as a small folder of its own, to be kept or sent away.

    python -m curious_jax.export runs/some-run pretrained/four-modules --checkpoint best

It holds the policy, the normaliser's statistics and the settings (run/policies.py); `evaluate` and `play` take it
in place of a run. Nothing in it says where it was made.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from curious_jax.cli import parser as options
from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import trained


def parser() -> options.Parser:
    """The command line."""
    result = options.Parser(
        "export", "Copies a run's policy into a small folder.", usage="RUN FOLDER [OPTION VALUE ...]"
    )
    trained.add_options(result, physics=False)
    result.add_argument("folder", type=options.path, metavar="FOLDER", help="a new folder, such as pretrained/NAME")
    return result


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Runs the program; returns its exit status."""
    given = parser().read(argv)
    folder = Path(given["folder"])
    if os.path.lexists(folder):
        raise ConfigError(f"{folder}: is there already; name a new folder")
    export, index = trained.find(given)
    from curious_jax.run import policies

    loaded = policies.load(export, seed_index=index)
    success = export.info.get("mean_success")
    if isinstance(success, list):
        success = success[index]
    try:
        policies.save(
            folder, loaded.policy, loaded.config, {"episodes": export.info["episodes"], "mean_success": success}
        )
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None  # not a scratch file within it
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 2**20:.2f} MiB\nshow it with: {program.command('play', folder)}")
    return program.DONE


if __name__ == "__main__":
    sys.exit(main())
