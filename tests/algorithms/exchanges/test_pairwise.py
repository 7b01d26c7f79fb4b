"""Every round is a permutation, every pair meets once."""

from __future__ import annotations

import pytest

from ringtree.algorithms.exchanges import dissemination, pairwise


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_everyone_sends_and_receives_once_a_round(n: int) -> None:
    schedule = pairwise.all_to_all(n)
    met = set()
    for k, part in enumerate(schedule.expand().by_round()):
        assert ((part.target - part.source) % n).tolist() == [k] * n
        met |= set(zip(part.source.tolist(), part.target.tolist(), strict=True))
    assert len(met) == n * n
    assert len(schedule.blocks[0].rows) == n


@pytest.mark.parametrize("n", [2, 5, 8, 9])
def test_dissemination_doubles_the_distance(n: int) -> None:
    for k, part in enumerate(dissemination.barrier(n).expand().by_round()):
        assert ((part.target - part.source) % n).tolist() == [2**k % n] * n
