"""Meshes of ranks as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from math import prod
from time import process_time

import pytest

from ringtree.draw.text.lines import plain
from ringtree.draw.text.mesh import groups, mesh

AXES = {
    "alone": {"dp": 1, "tp": 1},
    "row": {"dp": 4, "tp": 1},
    "plane": {"pp": 1, "dp": 2, "tp": 3},
    "planes": {"pp": 2, "dp": 2, "tp": 2},
    "five_axes": {"pp": 2, "dp": 2, "cp": 2, "ep": 2, "tp": 2},
    "many": {"pp": 12, "dp": 16, "tp": 10},
}


@pytest.mark.parametrize("name", AXES)
def test_it_looks_as_before(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"views/mesh_{name}.txt", plain(mesh(AXES[name])))


@pytest.mark.parametrize("name", [name for name in AXES if name != "many"])
def test_every_rank_is_there_once(name: str) -> None:
    text = re.sub(r"[a-z]+ \d+", "", plain(mesh(AXES[name])))
    assert sorted(map(int, re.findall(r"\d+", text))) == list(range(prod(AXES[name].values())))


def test_a_rank_stands_under_its_coordinates() -> None:
    sizes = {"dp": 4, "tp": 3}
    head, *rows = plain(mesh(sizes)).split("\n")
    for rank, (down, across) in enumerate(product(range(4), range(3))):
        at = re.search(rf"\b{rank}\b", rows[down].removeprefix(f"dp {down}").rjust(len(rows[down])))
        end = head.index(f"tp {across}") + len(f"tp {across}")
        assert at is not None and at.end() == end


@pytest.mark.parametrize(
    ("members", "width", "expected"),
    [
        (((0, 2), (1, 3)), 80, "{0 2} {1 3}"),
        (((0,),), 80, "{0}"),
        ([(k, k + 9) for k in range(9)], 30, "{0 9} {1 10} {2 11} … {8 17}"),
        ([range(100)], 20, "{0 1 2 3 4 5 6 … 99}"),
    ],
)
def test_groups_that_have_no_room_are_left_out(members: list[list[int]], width: int, expected: str) -> None:
    assert groups(members, width) == expected


def test_groups_of_many_are_as_quick_as_their_text_is_short() -> None:
    """A text of so many columns has no more members; 100,000 were left out one by one."""
    begun_s = process_time()
    assert groups([range(100_000)], 40) == "{0 1 2 3 4 5 6 7 8 9 10 11 12 … 99999}"
    assert process_time() - begun_s < 1
