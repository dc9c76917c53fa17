"""Sends policies to a Hugging Face hub and fetches them from there, by the hub's own client.

The client, which the extra "hub" brings, looks after addresses, log-ins and proxies; no token passes through here. It
is imported when it is needed, so that programs can name policies without it.
"""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import curious_jax
from curious_jax.cli import streams
from curious_jax.errors import ConfigError, check_installed, first_line
from curious_jax.run import manifest

PREFIX = "hub:"  # of the names of policies on the hub: hub:OWNER/NAME, hub:OWNER/NAME@REVISION
NEEDED, CARD, README = "policy.json", "card.json", "README.md"  # the first makes a repository one that holds a policy
PARTS = ("policy.npz", NEEDED)  # the policy itself
FILES = (*PARTS, manifest.MANIFEST, CARD)  # of a policy, for programs; no other file is fetched
COMMIT = ".commit"  # a file in the folder of a policy that was fetched
LIBRARY = "curious_jax"
TAGS = ("reinforcement-learning", "robotics", "goal-conditioned", "curriculum-learning", "mujoco", "jax")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_NAME = re.compile(rf"{PREFIX}({_REPOSITORY.pattern})(?:@([\w.-]+))?", re.ASCII)
_LOG_IN = "log in by `hf auth login`, or set HF_TOKEN"


class _Unreachable(ConfigError):
    """Says that the hub gave no answer."""


def is_name(run: str | Path) -> bool:
    """Is this the name of a policy on the hub, rather than a folder?"""
    return str(run).startswith(PREFIX)


def check(repository: str) -> None:
    """Refuses to begin with what cannot be sent. Raises ConfigError on a wrong name, or when there is no client."""
    if not _REPOSITORY.fullmatch(repository):
        raise ConfigError(f"--push-to {repository}: must be OWNER/NAME, a repository of the hub")
    check_installed(f"--push-to {repository}", "hub", "huggingface_hub")


def fetch(name: str) -> Path:
    """Brings a policy's files here, unless those of its latest commit are here, and returns their folder.

    The folder is below the client's (`assets` in $HF_HOME). Files are fetched beside it and take its place when all
    have come, so that an earlier copy stays whole; it will do when the hub cannot be reached.

    Args:
      name: hub:OWNER/NAME, or hub:OWNER/NAME@REVISION with a branch, a tag or a commit.
    Raises:
      ConfigError: when there is no such repository, it holds no policy, or there is no client or no way to the hub.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ConfigError(f"{name}: must be {PREFIX}OWNER/NAME, or {PREFIX}OWNER/NAME@REVISION")
    check_installed(name, "hub", "huggingface_hub")
    from huggingface_hub import constants

    repository, revision = found.groups()
    folder = Path(constants.HF_ASSETS_CACHE, LIBRARY, "hub", name.removeprefix(PREFIX).replace("/", "--"))
    try:
        with _in_one_line(name):
            about = _client().model_info(repository, revision=revision)
            if NEEDED not in {file.rfilename for file in about.siblings or ()}:
                raise ConfigError(f"{name}: holds no policy of curious_jax (no {NEEDED} in it)")
            if not _is_here(folder, about.sha):
                _replace(folder, repository, about.sha)
    except _Unreachable as error:
        if not folder.is_dir():
            raise
        streams.note(f"{error.args[0]}; what was fetched last time is taken")
    return folder


def _is_here(folder: Path, commit: str) -> bool:
    """Says whether a folder holds the policy of a commit, undamaged."""
    try:
        manifest.verify(folder, PARTS)
        return (folder / COMMIT).read_text() == commit
    except (manifest.Damaged, OSError, UnicodeDecodeError):
        return False


def _replace(folder: Path, repository: str, commit: str) -> None:
    """Fetches the files of a commit and puts them in the folder's place."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder.parent) as beside:
        new = Path(beside, "new")
        _client().snapshot_download(
            repository, revision=commit, local_dir=new, allow_patterns=list(FILES), tqdm_class=_bar()
        )
        (new / COMMIT).write_text(commit)
        with contextlib.suppress(FileNotFoundError):
            os.replace(folder, Path(beside, "old"))
        try:
            os.replace(new, folder)
        except OSError:
            if not _is_here(folder, commit):  # otherwise another program was faster
                raise


def check_imports(name: str, imports: Iterable[str]) -> None:
    """Refuses a fetched policy that wants Python modules which nobody has imported. Raises ConfigError, naming one."""
    for module in imports:
        if module not in sys.modules:
            raise ConfigError(
                f"{name}: wants to import your Python module {module}; if it may, say so by --import {module}, "
                "or import it first"
            )


def push(folder: Path, repository: str) -> str:
    """Sends a policy's folder in one commit to a repository, which is made when there is none; returns its address.

    Args:
      folder: as `policies.save` writes it, with its card.
      repository: OWNER/NAME.
    Raises:
      ConfigError: when it cannot be sent.
    """
    with _in_one_line(f"--push-to {repository}"):
        address = _client().create_repo(repository, exist_ok=True)
        _client().upload_folder(
            repo_id=repository,
            folder_path=folder,
            allow_patterns=[*FILES, README],
            commit_message=f"A policy of curious_jax {curious_jax.__version__}",
        )
    return str(address)


def page(card: dict[str, Any], text: str, repository: str) -> str:
    """Makes a card's page the model card of a repository: metadata for the hub first, then how to fetch the policy.

    Args:
      card: what `show.card.make` gathered.
      text: what `show.card.page` made of it.
    """
    from huggingface_hub import EvalResult, ModelCardData

    found = card["success"] if isinstance(card["success"], dict) else {}
    about = ModelCardData(
        library_name=LIBRARY,
        license=card["licence"].lower(),
        pipeline_tag="reinforcement-learning",
        tags=list(TAGS),
        model_name=repository.partition("/")[2],
        eval_results=[
            EvalResult(
                task_type="reinforcement-learning",
                dataset_type=card["training"]["world"],
                dataset_name=module,
                dataset_config=module,  # by type and config the client tells results apart
                metric_type="success_rate",
                metric_value=rate["rate"],
            )
            for module, rate in found.items()
        ]
        or None,
    )
    title, _, rest = text.partition("\n")
    use = f"    python -m curious_jax.play {PREFIX}{repository}"
    return f"---\n{about.to_yaml()}\n---\n\n{title}\n\n{use}\n{rest}"


def _client() -> Any:
    from huggingface_hub import HfApi

    return HfApi(library_name=LIBRARY, library_version=curious_jax.__version__)


def _bar() -> Any:
    """Makes the client's progress bars, which are shown on a terminal alone."""
    from huggingface_hub.utils import tqdm

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any):
            super().__init__(*args, **{**kwargs, "disable": not sys.stderr.isatty()})

    return Bar


@contextlib.contextmanager
def _in_one_line(name: str) -> Iterator[None]:
    """Makes ConfigErrors of what the client raises, each with the next move.

    Args:
      name: what the user typed.
    """
    from huggingface_hub import errors

    try:
        yield
    except ConfigError:
        raise
    except errors.RevisionNotFoundError:
        raise ConfigError(f"{name}: the repository has no such revision; leave @REVISION out for its latest") from None
    except errors.GatedRepoError:
        raise ConfigError(f"{name}: its owner gives access on request; ask on its page, and {_LOG_IN}") from None
    except errors.RepositoryNotFoundError:
        raise ConfigError(f"{name}: the hub has no such repository, or a private one; {_LOG_IN} if it is") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise ConfigError(
                f"{name}: the hub does not allow that ({status}); {_LOG_IN} to a token that may"
            ) from None
        if status < 500:
            raise ConfigError(f"{name}: the hub refuses that ({status}: {first_line(error)})") from None
        raise _Unreachable(f"{name}: the hub is out of order ({status}); try again later") from None
    except errors.HFValidationError as error:
        raise ConfigError(f"{name}: is no name of a repository ({first_line(error)})") from None
    except Exception as error:  # of the network, of many kinds
        if isinstance(error, OSError) and error.errno is not None:  # this machine's own
            raise
        why = f"{type(error).__name__}: {first_line(error)}"
        raise _Unreachable(f"{name}: the hub cannot be reached ({why}); look at the network, or HF_ENDPOINT") from None
