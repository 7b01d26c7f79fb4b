"""Twice as many ranks have the data after every round; paths are shorter than the binomial tree's."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms.trees import bine_tree, binomial
from ringtree.ir.schedule import Schedule


def test_the_tree_of_eight() -> None:
    rows = bine_tree.broadcast(8, 0).expand()
    assert list(zip(rows.source.tolist(), rows.target.tolist(), strict=True)) == [
        (0, 3), (0, 7), (3, 4), (0, 1), (3, 2), (7, 6), (4, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 8, 13, 64])
def test_ranks_with_the_data_send_to_ranks_without(n: int) -> None:
    has = {n // 2}
    for part in bine_tree.broadcast(n, n // 2).expand().by_round():
        assert set(part.source.tolist()) <= has
        assert not has & set(part.target.tolist())
        has |= set(part.target.tolist())
    assert len(has) == n


def lengths(schedule: Schedule) -> list[list[int]]:
    """How far hops go on a ring, by round."""
    n = schedule.ranks
    return [
        np.unique(np.minimum((part.target - part.source) % n, (part.source - part.target) % n)).tolist()
        for part in schedule.expand().by_round()
    ]


def test_a_hop_is_a_third_shorter() -> None:
    assert lengths(bine_tree.broadcast(64, 0)) == [[21], [11], [5], [3], [1], [1]]
    assert lengths(binomial.broadcast(64, 0)) == [[32], [16], [8], [4], [2], [1]]
