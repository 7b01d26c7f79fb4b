"""The colours of the pages, as the colour-blind see them."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ringtree import pages

HUES = ("blue", "sky", "green", "orange", "vermillion", "purple")
SEEN: dict[str, list[list[float]]] = {
    "by most": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "without red": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "without green": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "without blue": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
"""On linear red, green and blue. Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color
vision deficiency, 2009, at full severity."""
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
APART = 12.0
"""In CIELAB, where 2.3 is just to be seen."""


def lab(colour: str, seen: list[list[float]]) -> NDArray[Any]:
    part = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(np.array(seen) @ linear, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("who", SEEN)
def test_no_two_hues_are_alike(theme: str, who: str) -> None:
    style = (pages.FOLDER / "shell.css").read_text(encoding="utf-8")
    block = style.split(f'data-theme="{theme}"] {{')[1].split("}")[0]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6});", block))
    seen = {hue: lab(colours[hue], SEEN[who]) for hue in HUES}
    near = {(a, b): d for a, b in combinations(HUES, 2) if (d := float(np.linalg.norm(seen[a] - seen[b]))) < APART}
    assert not near
