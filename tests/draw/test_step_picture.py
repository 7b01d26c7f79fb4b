"""A step's calls as a picture: every call once, in every rank's order, and SVG that a reader can open."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.draw.step_picture import DrawnCall, folded, in_rows, levels, step_picture

GROUPS = [ranks for size in (2, 3, 4) for ranks in combinations(range(4), size)]


@given(st.lists(st.sampled_from(GROUPS), max_size=30))
def test_the_order_is_that_of_every_rank(groups: list[tuple[int, ...]]) -> None:
    made = [DrawnCall((g, k), "all_reduce", g, 64 * (1 + k % 3), "forward") for k, g in enumerate(groups)]
    calls = [[call for call in made if rank in call.ranks] for rank in range(4)]
    drawn = [call for level in levels(calls) for row in in_rows(level) for call in row]
    assert len(drawn) == len(groups)
    assert [[call for call in drawn if rank in call.ranks] for rank in range(4)] == calls


def test_calls_that_cross_have_no_order() -> None:
    a, b = (DrawnCall((name,), name, (0, 1), 8) for name in ("all_reduce", "broadcast"))
    with pytest.raises(ValueError, match="in no one order: rank 0 at all_reduce, rank 1 at broadcast"):
        levels([[a, b], [b, a]])


def test_messages_around_a_ring_have_a_level_a_turn() -> None:
    ranks, turns = 4, 3
    sends = [[DrawnCall((r, k), "send", (r, (r + 1) % ranks), 64) for k in range(turns)] for r in range(ranks)]
    calls = [[c for k in range(turns) for c in (sends[r][k], sends[r - 1][k])] for r in range(ranks)]
    assert [len(level) for level in levels(calls)] == [ranks] * turns


def test_a_waiting_event_is_drawn_below_its_message() -> None:
    there, back = DrawnCall(("a",), "send", (0, 1), 64), DrawnCall(("b",), "send", (1, 0), 64)
    assert levels([[there, back], [there, back]]) == [[there], [back]]


def test_earlier_messages_are_not_in_the_picture_of_a_step() -> None:
    late, own = DrawnCall(("a",), "send", (0, 1), 64), DrawnCall(("b",), "send", (1, 0), 64)
    assert levels([[own], [late, own]]) == [[own]]


def test_equal_events_are_side_by_side_and_repeats_counted() -> None:
    pairs = [(0, 1), (2, 3)]
    calls = [
        [DrawnCall((pairs[rank // 2], k), "all_reduce", pairs[rank // 2], 64) for k in range(6)] for rank in range(4)
    ]
    rows = [row for level in levels(calls) for row in in_rows(level)]
    assert [[call.ranks for call in row] for row in rows] == [pairs] * 6
    assert [(block, times) for block, times in folded(rows)] == [([rows[0]], 6)]


@given(st.lists(st.sampled_from("abc"), max_size=12), st.integers(2, 4))
def test_folding_loses_nothing(names: list[str], often: int) -> None:
    rows = [[DrawnCall((), name, (0, 1), 64)] for name in names * often]
    assert [row for block, times in folded(rows) for row in block * times] == rows


def test_bands_do_not_lie_on_one_another() -> None:
    crossing = [DrawnCall((ranks,), "all_reduce", ranks, 64) for ranks in ((0, 2), (1, 3))]
    assert in_rows(crossing) == [[crossing[0]], [crossing[1]]]


def test_the_picture_is_svg_with_every_row() -> None:
    sends = [DrawnCall((k,), "send", (k, k + 1), 512, "forward") for k in range(3)]
    last = DrawnCall(("all",), "all_reduce", (0, 1, 2, 3), 4096, "backward")
    calls = [[*sends[max(rank - 1, 0) : rank + 1], last] for rank in range(4)]
    texts = [e.text for e in ElementTree.fromstring(step_picture(calls)).iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("send 512 B") == 3 and texts.count("all_reduce 4 KiB") == 1
    assert [t for t in texts if t in ("forward", "backward")] == ["forward", "backward"]
