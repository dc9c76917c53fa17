"""What MkDocs does to a page before rendering it: tables made from the program, and links to files of the repository.

A page asks for a table by a comment, `<!-- table: settings -->`; so what it shows is what the program does. When the
page of web/ has been built (`make web`), it becomes a part of the site.
"""

import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from mkdocs.structure.nav import Link

from curious_jax import config as configs
from curious_jax.cli import parser as options
from curious_jax.config import option_name

_TABLE = re.compile(r"^<!-- table: (\w+) -->$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)\s#]+)(#[^)\s]*)?\)")
ARM, ARM_TITLE = "arm", "Play in the browser"  # where the page of web/ lies on the site, and its name
ARM_COMMENT = "<!-- the arm -->"  # becomes the link to it, where it has been built
_PRESETS = tuple(configs.PRESET_SETTINGS)


def on_config(config: Any) -> Any:
    """Takes the repository's address, when mkdocs.yml has one, for the button at the top of each page."""
    config.repo_url = config.extra["repository"] or None
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Adds the page of web/, if it has been built."""
    folder = built_page(config)
    for path in sorted(folder.rglob("*")) if folder else ():
        if path.is_file():
            name = f"{ARM}/{path.relative_to(folder).as_posix()}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_nav(nav: Any, *, config: Any, files: Any) -> Any:
    """Puts the page of web/ behind its description in the navigation, if it has been built."""
    if built_page(config):
        after = [item.is_page and item.file.src_uri for item in nav.items].index("browser.md")
        nav.items.insert(after + 1, Link(ARM_TITLE, f"{ARM}/index.html"))
    return nav


def built_page(config: Any) -> Path | None:
    """Returns the folder of the page of web/, or None while it has not been built."""
    folder = Path(config.config_file_path).parent / "web" / "dist"
    return folder if (folder / "index.html").is_file() else None


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Returns the page's text as it is to be rendered; MkDocs calls it."""
    link = f"**[{ARM_TITLE}]({ARM}/index.html)**" if built_page(config) else ""
    markdown = markdown.replace(ARM_COMMENT, link)
    return repository_links(with_tables(markdown), page.file.src_uri, config.extra["repository"])


def with_tables(markdown: str) -> str:
    """Puts each table where its comment stands.

    Raises:
      KeyError: on the name of no table.
    """
    return _TABLE.sub(lambda match: TABLES[match[1]](), markdown)


def repository_links(markdown: str, page: str, repository: str) -> str:
    """Sends relative links that leave docs/ to the repository, so that they work on the site as in a clone.

    Args:
      page: the page's path within docs/, with forward slashes.
      repository: the address of the repository; while it is empty, a link becomes its text and the file's path.
    """

    def absolute(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path.startswith("docs/"):
            return match[0]
        if repository:
            return f"[{text}]({repository.rstrip('/')}/blob/main/{path}{anchor})"
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return _LINK.sub(absolute, markdown)


def settings_table() -> str:
    """Every setting by group: its option, its default, and its meaning with range and source."""
    parts = []
    titles = {group: str(group) for group in configs.GROUPS} | options.GROUP_TITLES
    for group in (None, *configs.GROUPS):
        title, rows = titles[group], []
        for name, (place, field) in configs.fields_by_name().items():
            if place == group:
                meaning = "; ".join([options.meaning(field), *options.details(field)])
                rows.append([f"`{option_name(name)}`", options.default(name), meaning])
        parts.append(f"## {title[0].upper()}{title[1:]}\n\n{_table(['option', 'default', 'meaning'], rows)}")
    return "\n\n".join(parts)


def presets_table() -> str:
    """What the presets set, and nothing else."""
    names = list(dict.fromkeys(name for preset in configs.PRESET_SETTINGS.values() for name in preset))
    configurations = [configs.make_config(preset=preset) for preset in _PRESETS]
    rows = [[f"`{option_name(n)}`", *(options.show(configs.value(c, n)) for c in configurations)] for n in names]
    return _table(["option", *_PRESETS], rows)


def algorithms_table() -> str:
    """The named algorithms as settings."""
    names = list(configs.ALGORITHM_SETTINGS["curious"])
    rows = [
        [f"`{name}`", *(f"`{options.show(settings[n])}`" for n in names)]
        for name, settings in configs.ALGORITHM_SETTINGS.items()
    ]
    return _table(["`--algorithm`", *(f"`{option_name(n)}`" for n in names)], rows)


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "presets": presets_table,
    "algorithms": algorithms_table,
}


def _table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
