"""Puts a policy into the page of web/, in which the arm moves in a browser: for `make web`, and for a notebook's cell.

`make web` leaves the page without policies in the folder PAGE, where a wheel takes it along (docs/browser.md).
"""

import base64
import gzip
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.errors import ConfigError
from curious_jax.run import portable
from curious_jax.run.policies import Loaded

PAGE = Path(__file__).with_name("browser_page")
INDEX, STYLE, DATA, PROGRAM = "index.html", "style.css", "data.js", "page.js"
NOT_BUILT = (
    "the page in which the arm moves is not built: run `make web` in a clone of the repository (it needs node and npm)"
)


def check() -> None:
    """Raises ConfigError when the page is not built."""
    if not all((PAGE / name).is_file() for name in (INDEX, STYLE, PROGRAM)):
        raise ConfigError(NOT_BUILT)


def describe_policy(loaded: Loaded, name: str) -> dict[str, Any]:
    """Gives a policy as plain data.

    Args:
      name: what a message calls it.
    Raises:
      ConfigError: when the page cannot play it.
    """
    made = portable.make(loaded)
    if made.about["flat_goal"] or made.about["experts"] or "layer.0.norm_scale" in made.arrays:
        raise ConfigError(f"{name}: the page plays policies of curious and muvfa without layer normalisation")
    if loaded.offset is not None and np.any(loaded.offset):
        raise ConfigError(
            f"{name}: the page plays policies whose sensors are right, and this one's are off (--perturb-at)"
        )
    return {"episodes": loaded.episodes, **made.about, "arrays": made.arrays}


def data(world: Mapping[str, Any], policies: Sequence[Mapping[str, Any]]) -> str:
    """Returns the text of data.js.

    Args:
      world: as envs/pictures/page_world.py describes it.
      policies: as `describe_policy` gives them; several are the stages of the page's slider, by episodes.
    """
    stages = sorted(policies, key=lambda stage: stage["episodes"])
    return f'window.curiousData = {{ world: "{_pack(world)}", policies: "{_pack(stages)}" }};\n'


def page(data: str) -> str:
    """Returns the page as one text of HTML that needs nothing else.

    Args:
      data: what the function of that name made.
    Raises:
      ConfigError: when the page is not built.
    """
    check()
    index, style, program = ((PAGE / name).read_text(encoding="utf-8") for name in (INDEX, STYLE, PROGRAM))
    index = index.replace(f'<link rel="stylesheet" href="{STYLE}" />', f"<style>\n{style}</style>")
    for name, text in ((DATA, data), (PROGRAM, program)):
        index = index.replace(f'<script src="{name}"></script>', f"<script>\n{_inline(text)}</script>")
    return index


class Frame:
    """A page in a frame, which a notebook shows as the value of a cell.

    Attributes:
      html: the page alone, which a browser also opens from a file.
      height: of the frame, in pixels.
    """

    def __init__(self, html: str, height: int):
        self.html, self.height = html, height

    def _repr_html_(self) -> str:
        """Returns the frame with the whole page in it: no server is asked, and the page does not reach the notebook."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" title="The arm and its policy" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        return "<the arm in a browser: run this cell in a notebook to move it>"


def _pack(content: Any) -> str:
    """Gives plain data as JSON, compressed by gzip, as base64."""
    text = json.dumps(content, default=_plain, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _plain(value: Any) -> Any:
    """Gives slices as [first, one after the last], arrays as lists of the fewest digits that give them back."""
    if isinstance(value, slice):
        return [value.start, value.stop]
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return value.astype(str).astype(float).tolist()
    return value.tolist()


def _inline(script: str) -> str:
    """Gives a script as it may stand within a page: what would end it there is written otherwise."""
    return script.replace("</script", "<\\/script").replace("<!--", "\\x3C!--")
