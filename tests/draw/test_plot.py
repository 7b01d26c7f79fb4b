"""Curves as text."""

from __future__ import annotations

import pytest

from ringtree.draw.text.plot import plot


@pytest.mark.parametrize(("linear", "middle"), [(True, "51"), (False, "10")])
def test_the_middle_of_the_horizontal_axis(linear: bool, middle: str) -> None:
    lines = plot({"loss": [(1, 4.0), (101, 2.0)]}, "{:.0f}".format, "{:.1f}".format, 61, 5, linear)
    scale = "".join(span.text for span in lines[-2])
    assert scale.split() == ["1", middle, "101"]
