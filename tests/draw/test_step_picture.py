"""A step's calls as a picture: every call once, in every rank's order, and SVG that a reader can open."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.draw.step_picture import Call, folded, in_order, in_rows, step_picture

GROUPS = [ranks for size in (2, 3, 4) for ranks in combinations(range(4), size)]


def _played(groups: list[tuple[int, ...]]) -> list[list[Call]]:
    """The calls of four ranks that make collectives in these groups, one after another."""
    made = [Call((g, k), "all_reduce", g, 64 * (1 + k % 3), "forward") for k, g in enumerate(groups)]
    return [[call for call in made if rank in call.ranks] for rank in range(4)]


@given(st.lists(st.sampled_from(GROUPS), max_size=30))
def test_the_order_is_that_of_every_rank(groups: list[tuple[int, ...]]) -> None:
    calls = _played(groups)
    ordered = in_order(calls)
    assert len(ordered) == len(groups)
    rows = [call for row in in_rows(ordered) for call in row]
    for order in (ordered, rows):
        assert [[call for call in order if rank in call.ranks] for rank in range(4)] == calls


def test_calls_that_cross_have_no_order() -> None:
    a, b = (Call((name,), name, (0, 1), 8) for name in ("all_reduce", "broadcast"))
    with pytest.raises(ValueError, match="in no one order: rank 0 at all_reduce, rank 1 at broadcast"):
        in_order([[a, b], [b, a]])


def test_what_is_alike_is_side_by_side_and_what_repeats_is_counted() -> None:
    pairs = [(0, 1), (2, 3)]
    calls = [[Call((pairs[rank // 2], k), "all_reduce", pairs[rank // 2], 64) for k in range(6)] for rank in range(4)]
    assert [[call.ranks for call in row] for row in in_rows(in_order(calls))] == [pairs] * 6
    same = [[Call((k,), "all_gather", (0, 1), 64)] for k in range(5)]
    assert [times for _, times in folded(same)] == [5]


def test_the_picture_is_svg_with_every_row() -> None:
    sends = [Call((k,), "send", (k, k + 1), 512, "forward") for k in range(3)]
    calls = [
        [*sends[rank : rank + 1], Call(("all",), "all_reduce", (0, 1, 2, 3), 4096, "backward")] for rank in range(4)
    ]
    texts = [e.text for e in ElementTree.fromstring(step_picture(calls)).iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("send 512 B") == 3 and texts.count("all_reduce 4 KiB") == 1
    assert [t for t in texts if t in ("forward", "backward")] == ["forward", "backward"]
