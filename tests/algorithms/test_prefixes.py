"""Scans: neighbouring runs of ranks are joined, lower first; few rounds or few bytes."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Schedule
from ringtree.transform import pipeline
from ringtree.verify import prove, prove_programs
from tests import oracle


def joined(schedule: Schedule) -> list[tuple[int, ...]]:
    """Each rank's result as the ranks in the order in which they were joined; only neighbouring runs may be."""
    held: dict[tuple[int, int, int], tuple[int, ...]] = {}
    held |= {(rank, oracle.INPUT, chunk): (rank,) for rank in range(schedule.ranks) for chunk in range(schedule.chunks)}
    arriving: list[tuple[oracle.Row, tuple[int, ...]]] = []

    def land() -> None:
        for row, value in arriving:
            place = (row.target, row.target_buffer, row.target_chunk)
            held[place] = held[place] + value if row.reduce else value
            assert held[place] == tuple(range(held[place][0], held[place][-1] + 1)), row
        arriving.clear()

    now = 0
    for row in oracle.rows(schedule):
        if row.round != now:
            land()
            now = row.round
        arriving.append((row, held[row.source, row.source_buffer, row.source_chunk]))
    land()
    return [held.get((rank, oracle.OUTPUT, 0), ()) for rank in range(schedule.ranks)]


@pytest.mark.parametrize("name", serving("scan"))
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 13, 16, 33])
def test_ranks_are_joined_in_order(name: str, n: int) -> None:
    for collective in ("scan", "exscan"):
        schedule = build(name, collective, n)
        cut = pipeline(schedule, 3)
        for s in (schedule, cut):
            assert joined(s) == [tuple(range(rank + (collective == "scan"))) for rank in range(n)]
        prove(cut)
        prove_programs(lower(cut))


def sent(schedule: Schedule) -> list[int]:
    return schedule.chunks_sent().tolist()


@pytest.mark.parametrize("n", [3, 8, 33])
def test_a_chain_sends_least_and_an_in_order_tree_takes_few_rounds(n: int) -> None:
    assert sent(build("chain", "scan", n)) == sent(build("chain", "exscan", n)) == [1] * (n - 1) + [0]
    doubling, tree = build("hillis_steele", "scan", n), build("inorder_tree", "scan", n)
    assert sum(sent(tree)) <= 2 * n <= sum(sent(doubling)) + 3
    assert max(sent(tree)) <= 3
    assert doubling.rounds == (n - 1).bit_length() <= tree.rounds < 4 * (n - 1).bit_length()


def test_an_in_order_trees_rank_hears_from_one_at_a_time() -> None:
    for part in build("inorder_tree", "scan", 64).expand().by_round():
        away = part.take(part.source != part.target)
        assert len(np.unique(away.target)) == len(away)


def test_pieces_of_a_chain() -> None:
    for collective in ("scan", "exscan"):
        schedule = build("chain", collective, 6, pieces=4)
        prove(schedule)
        assert schedule.chunks == 4
