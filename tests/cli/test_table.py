"""How a table's cells are written."""

from __future__ import annotations

import pytest

from ringtree.cli import table


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0, "0.00"),
        (5e-9, "0.01"),
        (28.013e-6, "28.01"),
        (143.21e-6, "143.2"),
        (12345.6e-6, "12346"),
        (32414, "32414000000"),
    ],
)
def test_a_time_has_significant_decimals(time_s: float, text: str) -> None:
    assert table.microseconds(time_s) == text


def test_a_head_stands_above_its_cells() -> None:
    widths = (12, 8)
    assert table.head(("size (B)", "best"), widths) == "#   size (B)    best"
    assert table.row((8, "ring"), widths) == "           8    ring"
