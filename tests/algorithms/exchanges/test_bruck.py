"""Distances are powers of two; a block with i to go is sent once for every bit of i."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms.exchanges import bruck
from ringtree.ir.schedule import Buffer


@pytest.mark.parametrize("n", [2, 5, 8, 11])
def test_everyone_sends_to_one_and_receives_from_one_a_round(n: int) -> None:
    for schedule, sign in ((bruck.all_gather(n), -1), (bruck.all_to_all(n), 1)):
        for k, part in enumerate(schedule.expand().by_round()):
            away = part.take(part.source != part.target)
            assert np.all((away.target - away.source - sign * (1 << k)) % n == 0)


@pytest.mark.parametrize("n", [2, 5, 8, 11])
def test_a_block_hops_once_for_every_bit_of_its_distance(n: int) -> None:
    assert bruck.all_to_all(n).chunks_sent().tolist() == [sum(i.bit_count() for i in range(n))] * n


def test_a_range_that_goes_round_the_end_is_two() -> None:
    rows = bruck.all_gather(5).expand()
    mine = rows.take((rows.round == 1) & (rows.source == 4))
    assert list(zip(mine.source_chunk.tolist(), mine.count.tolist(), strict=True)) == [(4, 1), (0, 1)]


@pytest.mark.parametrize("n", [4, 8, 11, 16])
def test_blocks_of_a_round_are_no_neighbours_among_the_pairs(n: int) -> None:
    """So each is a message: a range is of neighbours, as sizes may differ from pair to pair."""
    held = {(rank, Buffer.INPUT, chunk): (rank, chunk) for rank in range(n) for chunk in range(n)}
    for part in bruck.all_to_all(n).expand().by_round():
        columns = (
            part.source,
            part.source_buffer,
            part.source_chunk,
            part.target,
            part.target_buffer,
            part.target_chunk,
        )
        rows = np.stack(columns, axis=1).tolist()
        for rank in range(n):
            sent = {held[r, b, c] for r, b, c, target, *_ in rows if r == rank != target}
            assert not {(origin, target + 1) for origin, target in sent} & sent
        held |= {(t, tb, tc): held[r, b, c] for r, b, c, t, tb, tc in rows}
    assert all(held[rank, Buffer.OUTPUT, origin] == (origin, rank) for rank in range(n) for origin in range(n))
