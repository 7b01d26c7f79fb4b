"""Distances are half of the remaining ranks, rounded up; no rank sends more than (n-1)/n of the vector, for any n."""

from __future__ import annotations

import pytest

from ringtree.algorithms.exchanges import circulant


@pytest.mark.parametrize(("n", "distances"), [(2, [1]), (8, [4, 2, 1]), (11, [6, 3, 2, 1]), (22, [11, 6, 3, 2, 1])])
def test_distances_halve(n: int, distances: list[int]) -> None:
    parts = circulant.reduce_scatter(n).expand().by_round()
    assert [set(((part.target - part.source) % n).tolist()) for part in parts] == [{d} for d in distances]


@pytest.mark.parametrize("n", [3, 7, 11, 22, 100])
def test_all_send_the_same_and_the_least(n: int) -> None:
    assert circulant.reduce_scatter(n).chunks_sent().tolist() == [n - 1] * n
    assert circulant.all_reduce(n).chunks_sent().tolist() == [2 * (n - 1)] * n


@pytest.mark.parametrize("n", [3, 7, 11, 22])
def test_a_rank_sends_two_ranges_a_round_at_most(n: int) -> None:
    for part in circulant.reduce_scatter(n).expand().by_round():
        assert max(part.source.tolist().count(r) for r in range(n)) <= 2
