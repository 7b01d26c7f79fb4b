"""Distances swing, messages halve, and no rank sends more than the bound."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms.exchanges import swing


@pytest.mark.parametrize("n", [2, 8, 12, 16, 32])
def test_partners_are_the_published_distances_away(n: int) -> None:
    for distance, part in zip((1, -1, 3, -5, 11), swing.reduce_scatter(n).expand().by_round(), strict=False):
        forth = np.where(part.source % 2, -distance, distance)
        assert np.all((part.target - part.source - forth) % n == 0)


@pytest.mark.parametrize("n", [4, 16, 32])
def test_a_sum_of_a_power_of_two_sends_one_range_a_round_and_half_of_the_last(n: int) -> None:
    parts = swing.all_reduce(n).expand().by_round()
    halves = [n >> k for k in range(1, n.bit_length())]
    assert [set(part.count.tolist()) for part in parts] == [{h} for h in halves + halves[::-1]]
    assert all(len(part) == n for part in parts)


@pytest.mark.parametrize("n", [3, 6, 7, 10, 11, 100])
def test_nobody_sends_more_than_must_be(n: int) -> None:
    assert swing.all_gather(n).chunks_sent().tolist() == [n - 1] * n


def test_the_odd_one_talks_to_everyone_once() -> None:
    rows = swing.all_gather(9).expand()
    assert sorted(rows.target[rows.source == 8].tolist()) == list(range(8))
    assert [rows.target[(rows.source == 8) & (rows.round == k)].tolist() for k in range(3)] == [
        [0], [1, 2], [3, 4, 5, 6, 7],
    ]  # fmt: skip
