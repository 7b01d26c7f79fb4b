"""Far first: one block goes far, half of them to the neighbour; a block's way is a binomial tree."""

from __future__ import annotations

import pytest

from ringtree.algorithms import pat


def test_what_goes_far_is_little() -> None:
    parts = pat.all_gather(16).expand().by_round()
    assert [set(((part.target - part.source) % 16).tolist()) for part in parts] == [{8}, {4}, {2}, {1}]
    assert [len(part) // 16 for part in parts] == [1, 2, 4, 8]


@pytest.mark.parametrize("n", [2, 5, 8, 13])
def test_every_block_has_a_tree_of_its_own(n: int) -> None:
    rows = pat.all_gather(n).expand()
    for block in range(n):
        tree = rows.take(rows.source_chunk == block)
        shape = {
            ((s - block) % n, (t - block) % n) for s, t in zip(tree.source.tolist(), tree.target.tolist(), strict=True)
        }
        assert len(tree) == n - 1
        assert {t for _, t in shape} == set(range(1, n))
        assert all(s == t & (t - 1) for s, t in shape), "a parent is its child without the lowest bit"
