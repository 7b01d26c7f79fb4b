"""Twice as many have it after every round; subtrees are ranges of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms.trees import binomial


@pytest.mark.parametrize("n", [2, 3, 8, 13])
def test_twice_as_many_have_it_after_every_round(n: int) -> None:
    has = {5 % n}
    for part in binomial.broadcast(n, 5 % n).expand().by_round():
        assert set(part.source.tolist()) <= has
        has |= set(part.target.tolist())
    assert len(has) == n


def test_the_tree_of_eight() -> None:
    rows = binomial.broadcast(8, 0).expand()
    assert list(zip(rows.source.tolist(), rows.target.tolist(), strict=True)) == [
        (0, 4), (0, 2), (4, 6), (0, 1), (2, 3), (4, 5), (6, 7),
    ]  # fmt: skip


@pytest.mark.parametrize("n", [2, 6, 8, 13])
def test_a_subtree_gets_its_own_chunks_only(n: int) -> None:
    schedule = binomial.scatter(n, 2 % n)
    assert schedule.chunks_sent().max() == n - 1
    received = schedule.chunks_received()
    passed_on = schedule.chunks_sent()
    others = np.arange(n) != 2 % n
    assert np.all((received - passed_on)[others] == 1)


def test_a_subtree_that_goes_round_the_end_is_two_ranges() -> None:
    rows = binomial.scatter(6, 3).expand()
    first = rows.take(rows.round == 0)
    assert list(zip(first.source_chunk.tolist(), first.count.tolist(), strict=True)) == [(1, 2)]
    rows = binomial.scatter(6, 1).expand()
    first = rows.take(rows.round == 0)
    assert list(zip(first.source_chunk.tolist(), first.count.tolist(), strict=True)) == [(5, 1), (0, 1)]
