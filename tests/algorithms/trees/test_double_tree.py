"""Two trees: each reaches everyone, and no rank passes data on in both."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms.trees import double_tree
from ringtree.ir.schedule import Schedule, Transfers

RANKS = [2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 100]


def trees(schedule: Schedule) -> list[Transfers]:
    rows = schedule.expand()
    rows = rows.take(~rows.reduce)  # downwards
    return [rows.take(rows.source_chunk == tree) for tree in (0, 1)]


@pytest.mark.parametrize("n", RANKS)
def test_no_rank_is_interior_in_both(n: int) -> None:
    for root in {0, 1, n - 1}:
        first, second = (set(tree.source.tolist()) for tree in trees(double_tree.broadcast(n, root)))
        assert first & second == {root}  # which stands above both
    first, second = (set(tree.source.tolist()) for tree in trees(double_tree.all_reduce(n)))
    assert first & second == ({0} if n % 2 else set())  # NCCL's shift gives the first root the last place, as here


@pytest.mark.parametrize("n", RANKS)
def test_no_rank_has_more_than_two_children_in_all(n: int) -> None:
    for schedule in (double_tree.all_reduce(n), double_tree.broadcast(n, 1), double_tree.broadcast(n, n - 1)):
        assert np.bincount(np.concatenate([tree.source for tree in trees(schedule)])).max() <= 2


@pytest.mark.parametrize("n", RANKS)
def test_both_are_binary_trees_over_all_ranks(n: int) -> None:
    for schedule in (double_tree.all_reduce(n), double_tree.broadcast(n, n - 1)):
        for tree in trees(schedule):
            root = set(range(n)) - set(tree.target.tolist())
            assert len(tree) == n - 1
            assert len(root) == 1
            assert np.bincount(tree.source).max() <= 2
            reached = set(root)
            for parent, child in zip(tree.source.tolist(), tree.target.tolist(), strict=True):
                assert parent in reached
                reached.add(child)


@pytest.mark.parametrize("n", RANKS)
def test_interior_ranks_are_even_in_the_first_tree(n: int) -> None:
    first, second = trees(double_tree.all_reduce(n))
    assert np.all(first.source % 2 == 0)
    odd = second.source[second.source != 0] if n % 2 else second.source  # by shift, the last rank's place falls to 0
    assert np.all(odd % 2 == 1)


def test_the_trees_of_eight_and_seven_are_those_of_nccl() -> None:
    up = {r: p for r, p in enumerate(double_tree.parents(8).tolist()) if r}
    assert up == {4: 0, 2: 4, 6: 4, 1: 2, 3: 2, 5: 6, 7: 6}
    first, second = (
        dict(zip(t.target.tolist(), t.source.tolist(), strict=True)) for t in trees(double_tree.all_reduce(8))
    )
    assert first == up
    assert second == {7 - child: 7 - parent for child, parent in up.items()}  # mirror
    up = {r: p for r, p in enumerate(double_tree.parents(7).tolist()) if r}
    assert up == {4: 0, 2: 4, 6: 4, 1: 2, 3: 2, 5: 6}
    _, second = (dict(zip(t.target.tolist(), t.source.tolist(), strict=True)) for t in trees(double_tree.all_reduce(7)))
    assert second == {(child + 1) % 7: (parent + 1) % 7 for child, parent in up.items()}  # shift


@pytest.mark.parametrize("n", RANKS)
def test_up_is_down_backwards(n: int) -> None:
    rows = double_tree.all_reduce(n).expand()
    up, down = rows.take(rows.reduce), rows.take(~rows.reduce)
    assert up.round.max() < down.round.min()
    assert sorted(zip(up.source.tolist(), up.target.tolist(), strict=True)) == sorted(
        zip(down.target.tolist(), down.source.tolist(), strict=True)
    )


def test_any_root_is_the_same_by_rotation() -> None:
    from ringtree.transform import relabel

    for n in (5, 8):
        at_zero = double_tree.broadcast(n, 0)
        assert relabel(at_zero, (np.arange(n) + 3) % n) == double_tree.broadcast(n, 3)
