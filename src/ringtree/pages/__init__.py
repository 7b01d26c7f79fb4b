"""A page: one HTML file with everything in it, that any browser opens from the disk and that fetches nothing.

A view is a folder here, with its scripts and its style sheet, and its section of texts.json. The shell (shell.js)
is around them: tabs, language, theme, export, help. See docs/pages.md.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent

SCRIPTS = ("d3.min", "elements", "figures", "shell")
"""Scripts of every page, in the order in which they are read."""

VIEWS: dict[str, tuple[str, ...]] = {
    "schedule": ("ink", "wording", "contents", "layouts", "stage", "buffers", "transfers", "player", "view"),
    "trace": (
        "model",
        "bars",
        "pens",
        "layout",
        "timeline",
        "dom",
        "facts",
        "events",
        "overview",
        "parts",
        "canvas",
        "window",
        "selection",
        "pointer",
        "view",
    ),
    "report": ("chart", "figures", "table", "choice", "controls", "charts", "view"),
    "train": ("curve", "tables", "mesh", "view"),
    "machine": ("layout", "picture", "overlay", "words", "matrix", "side", "copies", "view"),
    "doctor": ("rows", "links", "view"),
}
"""The scripts of each view's folder, without .js, in the order in which they are read."""
INTEGERS = (np.int8, np.int16, np.int32)


def assemble(title: str, views: Sequence[str], data: Mapping[str, Any]) -> str:
    """The page with these views as tabs. `data` is JSON by view, columns as `encode` gives them; the first view
    is the one that is shown."""
    texts = _texts(views)
    scripts = [*(_read(f"{name}.js") for name in SCRIPTS), *map(_script, views)]
    return Template(_read("shell.html")).substitute(
        title=escape(title),
        licence=escape(_read("d3.LICENSE")),
        noscript=" ".join(texts.pop("shell.noscript")),
        styles="\n".join(map(_read, ("shell.css", *(f"{view}/style.css" for view in views)))),
        scripts="\n".join(f"<script>\n{script}</script>" for script in scripts),
        data=_inline({"title": title, "views": list(views), "data": dict(data), "texts": texts}),
    )


def encode(array: NDArray[Any]) -> dict[str, str] | float | int:
    """A column as a page has it: {"type", "base64"} of the narrowest type that holds every value, little-endian; a
    plain number where all are equal. Integers beyond 32 bits become float64, exact up to 2**53; so does every float."""
    if array.dtype == np.bool_:
        array = array.astype(np.int8)
    if len(array) and bool(np.all(array == array[0])):
        first: float | int = array[0].item()
        return first
    narrow: np.dtype[Any] = np.dtype(np.float64)
    if array.dtype.kind in "iu":
        low, high = (int(array.min()), int(array.max())) if len(array) else (0, 0)
        fits = [t for t in INTEGERS if np.iinfo(t).min <= low and high <= np.iinfo(t).max]
        narrow = np.dtype(fits[0]) if fits else narrow
    data = np.ascontiguousarray(array, dtype=narrow.newbyteorder("<"))
    return {"type": narrow.name, "base64": b64encode(data.tobytes()).decode("ascii")}


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _script(view: str) -> str:
    """The view's scripts in a block, so that no name in it collides with another view's."""
    parts = "\n".join(_read(f"{view}/{name}.js").removeprefix("'use strict';\n") for name in VIEWS[view])
    return f"'use strict';\n{{\n{parts}}}\n"


def _texts(views: Sequence[str]) -> dict[str, list[str]]:
    """The sections of texts.json that these views need."""
    sections = {"shell", *views}
    texts: dict[str, list[str]] = json.loads(_read("texts.json"))
    return {key: words for key, words in texts.items() if key.split(".")[0] in sections}


def _inline(value: object) -> str:
    """JSON that may stand inside a script element: without `<`, nothing in it can end the element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
