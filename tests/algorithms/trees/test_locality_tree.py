"""Each group is entered once, whatever the root."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ringtree.algorithms import build
from ringtree.algorithms.trees import binomial, locality_tree
from ringtree.verify import prove


@pytest.mark.parametrize(("ranks", "group", "root"), [(12, 3, 0), (12, 4, 7), (15, 5, 14), (32, 8, 9)])
def test_a_group_is_entered_once(ranks: int, group: int, root: int) -> None:
    rows = locality_tree.broadcast(ranks, root, group=group).expand()
    between = rows.take(rows.source // group != rows.target // group)
    assert sorted((between.target // group).tolist()) == sorted({*range(ranks // group)} - {root // group})
    inside = rows.take(rows.source // group == rows.target // group)
    assert between.round.max() < inside.round.min()


def test_a_tree_that_knows_no_groups_crosses_more_often() -> None:
    def crossings(rows):  # type: ignore[no-untyped-def]
        return int((rows.source // 3 != rows.target // 3).sum())

    assert crossings(binomial.broadcast(12, 0).expand()) > crossings(locality_tree.broadcast(12, 0, group=3).expand())


def test_groups_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="groups of 5 do not divide 12 ranks"):
        build("locality_tree", "all_reduce", 12, group=5)


@st.composite
def distances(draw: st.DrawFn) -> NDArray[np.int64]:
    n, kinds = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    rows = draw(st.lists(st.lists(st.integers(1, kinds), min_size=n, max_size=n), min_size=n, max_size=n))
    return np.minimum(rows, np.transpose(rows))


def groups(apart: NDArray[np.int64], limit: int) -> list[set[int]]:
    """The ranks that hops of at most `limit` join."""
    left, found = set(range(len(apart))), []
    while left:
        group, new = set[int](), {min(left)}
        while new:
            group |= new
            new = {int(r) for g in new for r in np.flatnonzero(apart[g] <= limit)} - group
        found.append(group)
        left -= group
    return found


@given(distances(), st.data())
def test_any_distances_make_a_tree_that_enters_each_group_once(apart: NDArray[np.int64], data: st.DataObject) -> None:
    n = len(apart)
    root = data.draw(st.integers(0, n - 1))
    tree = build("locality_tree", "broadcast", n, root, distances=apart)
    prove(tree)
    prove(build("locality_tree", "reduce", n, root, distances=apart))
    prove(build("locality_tree", "all_reduce", n, distances=apart))
    hops = list(zip(tree.expand().source.tolist(), tree.expand().target.tolist(), strict=True))
    for limit in range(1, 6):
        for group in groups(apart, limit):
            entries = [s for s, t in hops if t in group and s not in group]
            assert len(entries) == (root not in group)


def test_hosts_then_sockets_then_ranks() -> None:
    host, socket = np.arange(12) // 4, np.arange(12) // 2
    apart = np.where(host[:, None] != host, 10, np.where(socket[:, None] != socket, 2, 1))
    rows = build("locality_tree", "broadcast", 12, 5, distances=apart).expand()
    assert apart[rows.source, rows.target].tolist() == [10, 10, 2, 2, 2, 1, 1, 1, 1, 1, 1]
    assert rows.round.tolist() == [0, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distances": np.ones((3, 4))}, r"distances are \(3, 4\); expected a symmetric matrix over 4 ranks"),
        ({"distances": np.arange(16).reshape(4, 4)}, r"distances are \(4, 4\); expected a symmetric matrix over 4"),
        ({"distances": np.ones((4, 4)), "group": 2}, "has a group and distances; expected one of them"),
    ],
)
def test_strange_distances_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"locality_tree: {message}"):
        build("locality_tree", "broadcast", 4, **options)
