"""Sums are taken in rank order on every rank, so all have the same to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms.direct import flat, one_shot, two_shot
from ringtree.ir.schedule import Buffer, Schedule


def orders(schedule: Schedule) -> list[list[int]]:
    """For every output chunk that is summed up: whose inputs, in the order in which they are added."""
    rows = schedule.expand()
    rows = rows.take(rows.source_buffer == Buffer.INPUT)
    positions = sorted(set(zip(rows.target.tolist(), rows.target_chunk.tolist(), strict=True)))
    return [rows.source[(rows.target == t) & (rows.target_chunk == c)].tolist() for t, c in positions]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("function", [one_shot.all_reduce, two_shot.all_reduce, two_shot.reduce_scatter])
def test_sums_are_in_rank_order(function, n: int) -> None:  # type: ignore[no-untyped-def]
    summed = orders(function(n))
    assert summed == [list(range(n))] * n


@pytest.mark.parametrize("root", [0, 2, 4])
def test_sums_at_a_root_are_in_rank_order(root: int) -> None:
    assert orders(flat.reduce(5, root)) == [[0, 1, 2, 3, 4]]


def test_the_first_is_stored_and_the_rest_added() -> None:
    for schedule in (one_shot.all_reduce(4), two_shot.all_reduce(4)):
        rows = schedule.blocks[0].rows
        assert np.array_equal(rows.reduce, rows.source > 0)


def test_ranks_begin_with_different_targets() -> None:
    rows = two_shot.all_reduce(6).blocks[0].rows
    first = [int(rows.target[rows.source == r][0]) for r in range(6)]
    assert sorted(first) == list(range(6))
