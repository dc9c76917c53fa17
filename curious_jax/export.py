"""python -m curious_jax.export RUN DIR: a run's policy as a small folder of its own, to be kept or sent away.

    python -m curious_jax.export runs/some-run pretrained/four-modules --checkpoint best
    python -m curious_jax.export runs/some-run four --format onnx
    python -m curious_jax.export runs/some-run --push-to OWNER/NAME

The format `folder` holds the policy, the normaliser's statistics and the settings (run/policies.py); `evaluate` and
`play` take it in place of a run. The others are for programs without JAX (run/formats.py, docs/export.md). A card
(card.json, README.md) says what the policy takes and gives. Nothing in it says where it was made. --push-to sends the
folder to a Hugging Face hub (run/hub.py), where `hub:OWNER/NAME` is its name.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curious_jax.cli import parser as options
from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder
from curious_jax.run import formats, hub, trained

if TYPE_CHECKING:
    from curious_jax.run import policies


def parser() -> options.Parser:
    """The command line."""
    result = options.Parser("export", "Copies a run's policy into a small folder.", usage="RUN DIR [OPTION VALUE ...]")
    trained.add_options(result, physics=False)
    result.add_argument(
        "folder", type=options.path, nargs="?", metavar="DIR", help="a new folder, such as pretrained/NAME"
    )
    result.add_argument(
        "--format",
        default=formats.FOLDER,
        metavar="|".join(formats.FORMATS),
        help="folder: for curious_jax's own programs; the others: for programs without JAX, safetensors and onnx by "
        'the extra "formats" [default: folder]',
    )
    result.add_argument(
        "--push-to",
        metavar="OWNER/NAME",
        help="in place of DIR: a repository of the Hugging Face hub, which is made when there is none (public, unless "
        'your account says otherwise); needs the extra "hub" and a log-in, as by hf auth login',
    )
    return result


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Runs the program; returns its exit status."""
    given = parser().read(argv)
    if given["push_to"] is not None:
        return _push(given)
    if given["folder"] is None:
        raise ConfigError("the following arguments are required: DIR, or --push-to OWNER/NAME; see --help")
    folder = Path(given["folder"])
    if os.path.lexists(folder):
        raise ConfigError(f"{folder}: is there already; name a new folder")
    formats.check(given["format"])
    export, index = trained.find(given)
    try:
        hint = write(folder, export, index, given["format"])
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None  # not a scratch file within it
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 2**20:.2f} MiB\n{hint}")
    return program.DONE


def _push(given: dict[str, Any]) -> int:
    """Sends the policy to a hub; keeps nothing here."""
    repository = given["push_to"]
    if given["folder"] is not None:
        raise ConfigError(f"--push-to {repository}: is in place of {given['folder']}; leave one of the two out")
    if given["format"] != formats.FOLDER:
        raise ConfigError(f"--format {given['format']}: --push-to sends what curious_jax loads; leave --format out")
    hub.check(repository)
    export, index = trained.find(given)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "policy")
        write(folder, export, index, formats.FOLDER)
        page = folder / hub.README
        card = json.loads((folder / hub.CARD).read_text(encoding="utf-8"))
        page.write_text(hub.page(card, page.read_text(encoding="utf-8"), repository), encoding="utf-8")
        address = hub.push(folder, repository)
    print(f"{address}\nshow it with: {program.command('play', hub.PREFIX + repository)}")
    return program.DONE


def write(folder: Path, saved: "policies.SavedPolicy", index: int, name: str) -> str:
    """Writes the policy of one seed and its card, all of it or nothing; returns a line that says how to use it.

    Args:
      folder: a new one.
      index: which seed of the run.
      name: one of formats.FORMATS.
    """
    from curious_jax.run import files, policies, portable
    from curious_jax.show import card

    loaded, file = policies.load(saved, seed_index=index), formats.FILES.get(name)
    about = card.make(saved, loaded, file, index)
    pages = {card.CARD: json.dumps(runfolder.plain(about), indent=2) + "\n", card.README: card.page(about)}
    if file is None:
        success = saved.info.get("mean_success")
        if isinstance(success, list):
            success = success[index]
        info = {"episodes": loaded.episodes, "mean_success": success}
        policies.save(folder, loaded.params, loaded.config, info, pages)
        return f"show it with: {program.command('play', folder)}"
    policy = portable.make(loaded)
    with files.atomic_folder(folder) as scratch:
        formats.write(policy, name, scratch / file)
        for page, text in pages.items():
            (scratch / page).write_text(text, encoding="utf-8")
    return f"{folder / card.README} says what it takes and gives"


if __name__ == "__main__":
    sys.exit(main())
