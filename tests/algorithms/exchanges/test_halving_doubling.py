"""Exchanges are mutual, halve each time, and only folded ranks sit out."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms.exchanges import halving_doubling


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_powers_of_two_exchange_with_partners_and_halve(n: int) -> None:
    parts = halving_doubling.all_reduce(n).expand().by_round()
    sizes = [int(part.count[0]) for part in parts]
    halves = [n >> k for k in range(1, n.bit_length())]
    assert sizes == halves + halves[::-1]
    for part in parts:
        pairs = set(zip(part.source.tolist(), part.target.tolist(), strict=True))
        assert pairs == {(b, a) for a, b in pairs}
        assert len(pairs) == n


@pytest.mark.parametrize("n", [3, 5, 6, 7, 9, 15, 17])
def test_other_numbers_fold_the_first_even_ranks(n: int) -> None:
    power = 1 << (n.bit_length() - 1)
    first, *between, last = halving_doubling.all_reduce(n).expand().by_round()
    folded = [2 * i for i in range(n - power)]
    assert (first.source.tolist(), first.target.tolist()) == (folded, [r + 1 for r in folded])
    assert (last.source.tolist(), last.target.tolist()) == ([r + 1 for r in folded], folded)
    assert not {r for part in between for r in part.source.tolist()} & set(folded)


def test_blocks_of_a_folded_pair_are_added_up_together() -> None:
    rows = halving_doubling.reduce_scatter(3).expand()
    got = np.stack([rows.source, rows.target, rows.source_chunk, rows.count], axis=1)
    assert list(map(tuple, got.tolist())) == [(0, 1, 0, 3), (1, 2, 2, 1), (2, 1, 0, 2), (1, 0, 0, 1)]
