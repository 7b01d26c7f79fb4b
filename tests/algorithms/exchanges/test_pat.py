"""Far first: one block goes far, half of them to the neighbour; a block's way is a binomial tree."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build
from ringtree.algorithms.exchanges import pat
from ringtree.ir.lower import lower
from ringtree.verify import prove, prove_programs


def test_far_messages_are_small() -> None:
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


@pytest.mark.parametrize("aggregate", [1, 2, 4, 8])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, *(pytest.param(n, marks=pytest.mark.slow) for n in (32, 33))])
def test_bounded_buffers(n: int, aggregate: int) -> None:
    trees = min(aggregate, max(1 << (n - 1).bit_length() >> 1, 1))
    for collective in ("all_gather", "reduce_scatter"):
        schedule = build("pat", collective, n, aggregate=aggregate)
        prove(schedule)
        prove_programs(lower(schedule))
        for part in schedule.expand().by_round():
            assert max(part.source[part.source != part.target].tolist().count(r) for r in range(n)) <= trees
        assert schedule.chunks_sent().tolist() == [n - 1] * n
    assert schedule.scratch <= 2 * trees + trees * (-(-n // (2 * trees)) - 1).bit_length()


@pytest.mark.parametrize(("aggregate", "rounds"), [(1, 31), (2, 16), (4, 9), (8, 6), (16, 5), (None, 5)])
def test_few_rounds_when_all_fit_else_linear(aggregate: int | None, rounds: int) -> None:
    for collective in ("all_gather", "reduce_scatter"):
        assert build("pat", collective, 32, aggregate=aggregate).rounds == rounds


def test_other_than_powers_of_two_are_refused() -> None:
    with pytest.raises(ValueError, match="pat: 3 blocks a round; expected a power of two"):
        build("pat", "all_gather", 8, aggregate=3)
