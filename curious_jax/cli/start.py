"""Starts JAX for a program: limits of the process, settings that programs cannot work with, the compilation cache."""

import contextlib
import glob
import os
import re
import resource
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from curious_jax.cli.streams import note
from curious_jax.errors import ConfigError, first_line

FILES, ADDRESSES = 64, 3 * 2**30  # open files, bytes of address space: measured 23 and 2.1 GiB for the smallest run
# JAX's settings under which the programs give other numbers, or do not work.
FIXED = {
    "jax_enable_x64": False,
    "jax_disable_jit": False,
    "jax_numpy_rank_promotion": "allow",
    "jax_numpy_dtype_promotion": "standard",
    "jax_transfer_guard_host_to_device": "allow",
    "jax_transfer_guard_device_to_device": "allow",
    "jax_transfer_guard_device_to_host": "allow",
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_threefry_partitionable": True,
    "jax_random_seed_offset": 0,
    "jax_raise_persistent_cache_errors": False,
}
CACHE = "jax_enable_compilation_cache"
_changed: dict[str, Any] = {}  # JAX's settings that a program has changed, as they were
_made: list[Path] = []  # folders that were made for --cache, the outermost first


def start_jax(cache: str | None) -> None:
    """Imports JAX and makes it ready for a program.

    Args:
      cache: the folder that keeps compiled programs, see `keep_compiled`.
    Raises:
      ConfigError: when this process may not open enough files, when the folder cannot be used, or when JAX finds no
        device of the platform that it was told to use.
    """
    check_limits()
    import jax

    _fix_settings()
    keep_compiled(cache)
    try:
        jax.default_backend()
    except Exception as error:  # JAX raises a bare AssertionError too
        why = first_line(error, "no such device")
        raise ConfigError(
            f"JAX_PLATFORMS={jax.config.jax_platforms}: JAX cannot use that here ({why}); leave it out, or install "
            "what it needs, such as curious_jax[cuda]"
        ) from None


def _fix_settings() -> None:
    """Gives JAX the settings that the programs need, and says so."""
    import jax

    unused = []
    for name, value in FIXED.items():
        was = getattr(getattr(jax.config, name), "value", getattr(jax.config, name))
        if was is not None and was != value:
            _set(name, value)
            unused.append(f"{name.upper()}={was}")
    if unused:
        note(f"{', '.join(unused)}: this program does not use that and ignores it")


def _set(name: str, value: Any) -> None:
    """Changes one of JAX's settings until the end of the program."""
    import jax

    found = getattr(jax.config, name)
    _changed.setdefault(name, getattr(found, "value", found))
    jax.config.update(name, value)


def check_limits() -> None:
    """Raises the soft limit of open files, and refuses limits under which JAX would stand still or crash.

    Raises:
      ConfigError: naming the limit as the shell does.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if hard != unlimited and hard < FILES:
        raise ConfigError(f"ulimit -n {hard}: too few open files; must be at least {FILES}")
    if soft != unlimited and soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES if hard == unlimited else min(1024, hard), hard))
    addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    if addresses != unlimited and addresses < ADDRESSES:
        raise ConfigError(
            f"ulimit -v {addresses // 1024}: too little address space; must be at least {ADDRESSES // 1024}"
        )


def keep_compiled(folder: str | None) -> None:
    """Keeps compiled programs in a folder, where the next start of the same command finds them.

    What is kept is run without a further look, so the folder must be the user's, and only the user's to write to.

    Args:
      folder: "none" for no keeping; None for what JAX_COMPILATION_CACHE_DIR says, or else this user's cache folder.
    Raises:
      ConfigError: when the folder was asked for and cannot be used.
    """
    import jax

    if folder == "none":
        _set(CACHE, False)
        return
    if folder is not None and not folder.strip():
        raise ConfigError("--cache: must name a folder, or be none")
    path = folder or jax.config.jax_compilation_cache_dir or _users_cache()
    if "://" not in path:  # in a cloud's storage, JAX looks after it
        path = os.path.expanduser(path)
        new = [place for place in (Path(path), *Path(path).parents) if folder and not os.path.lexists(place)]
        why = _why_not(Path(path))
        _made.extend(reversed(new))
        if why and folder is not None:
            raise ConfigError(f"--cache {folder[:100]}: {why}; give another folder, or none")
        if why:
            note(f"{path}: {why}; compiled programs are not kept")
            _set(CACHE, False)
            return
    jax.config.update("jax_compilation_cache_dir", path)
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:  # JAX keeps nothing below a second
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _users_cache() -> str:
    """Returns curious_jax below $XDG_CACHE_HOME or ~/.cache."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "curious_jax")


def _why_not(path: Path) -> str | None:
    """Makes the folder, for its owner alone, and says what speaks against its use."""
    try:
        if not path.is_absolute() and str(path).startswith("~"):
            return "there is no home folder"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except (OSError, ValueError) as error:
        return f"cannot be a folder ({getattr(error, 'strerror', None) or error})"
    if found.st_uid != os.getuid():
        return "belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others can write there (chmod go-w forbids that)"
    return None if os.access(path, os.R_OK | os.W_OK | os.X_OK) else "cannot be written to"


_DAMAGED = r"Error (reading|writing) persistent compilation cache entry for '([^']*)'"


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Puts JAX's settings back at the end of a program, and mends the compilation cache while it runs.

    Folders that were made for --cache and are empty at the end are removed.
    """
    outer, made = set(_changed), len(_made)
    with warnings.catch_warnings():
        show, said = warnings.showwarning, set[str]()

        def mend(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
            if found := re.match(_DAMAGED, str(message)):
                _mend_cache(str(message), found[1], found[2], said)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.filterwarnings("always", _DAMAGED)
        warnings.showwarning = mend
        try:
            yield
        finally:
            for name in set(_changed) - outer:
                import jax
                from jax.experimental.compilation_cache import compilation_cache

                jax.config.update(name, _changed.pop(name))
                if name == CACHE:  # whether there is one JAX asks once
                    compilation_cache.reset_cache()
            while len(_made) > made:
                with contextlib.suppress(OSError):  # it holds something
                    _made.pop().rmdir()


def _mend_cache(message: str, verb: str, name: str, said: set[str]) -> None:
    """Removes the entries of a program that JAX could not read and would not replace; says so once.

    Args:
      verb: what failed, "reading" or "writing".
      name: the program's.
      said: the verbs of which something was said already.
    """
    import jax

    folder = jax.config.jax_compilation_cache_dir
    if verb == "reading":
        for entry in Path(folder).glob(f"{glob.escape(name)}-*"):
            with contextlib.suppress(OSError):
                entry.unlink()
    if verb not in said:
        said.add(verb)
        what = "what cannot be read is compiled again" if verb == "reading" else "not all can be kept"
        note(f"{folder}: compiled programs: {what} ({message.rpartition(': ')[2][:100]})")
