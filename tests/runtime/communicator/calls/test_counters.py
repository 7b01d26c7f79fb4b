"""The engine moves the bytes of the program: per pair of ranks, for every algorithm."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import REGISTRY, build, pairs
from ringtree.algorithms.cost import AtMost
from ringtree.ir.collective import COLLECTIVES
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.cases import Case, run
from tests.runtime.conftest import Pools

Row = tuple[list[list[int]], dict[int, int], int]
ELEMENTS = 24  # a chunk
LONG = pytest.mark.slow


def measure(comm: Communicator, algorithm: str, collective: str, plain: bool = False) -> Row:
    """(bytes and messages from each peer, chunks from each peer by the program, bytes of a chunk). `plain`: by the
    algorithm's schedule as it is, not cut for the size."""
    schedule = build(algorithm, collective, comm.size)
    chunks = schedule.chunks
    blocked = COLLECTIVES[collective].blocked
    barrier = COLLECTIVES[collective].repeats
    per_rank = chunks // comm.size * ELEMENTS if blocked else chunks * ELEMENTS
    forced = schedule if plain else algorithm
    comm.barrier()
    comm.reset_counters()
    run(comm, Case(collective, forced, "int64", "sum", per_rank, in_place=False))  # type: ignore[arg-type]
    counted = comm.counters().tolist()
    count = 1 if barrier else (per_rank * comm.size if blocked else per_rank)
    chosen = comm.chosen(collective, count, np.int32 if barrier else np.int64, algorithm=forced)
    program = chosen.part.program
    assert plain is False or program.chunks == chunks
    return counted, program.chunks_from(), 4 if barrier else count * 8 // program.chunks


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=LONG), 5, pytest.param(8, marks=LONG)])
def test_bytes_per_pair_are_the_programs(pools: Pools, engine: str, ranks: int) -> None:
    pool = pools(engine, ranks)
    for algorithm, collective in pairs():
        for rank, (counted, chunks, nbytes) in enumerate(pool.run(measure, algorithm, collective)):
            want = [chunks.get(peer, 0) * nbytes for peer in range(ranks)]
            assert [b for b, _ in counted] == want, (algorithm, collective, rank)
            assert counted[rank] == [0, 0]


@pytest.mark.parametrize("ranks", [pytest.param(n, marks=[LONG] if n != 3 else []) for n in (2, 3, 5, 8)])
def test_messages_are_the_schedules_and_bytes_the_formulas(pools: Pools, engine: str, ranks: int) -> None:
    """Real ranks, the schedule and the formula that is stated: three accounts of the same."""
    pool = pools(engine, ranks)
    for algorithm, collective in pairs():
        schedule, cost = build(algorithm, collective, ranks), REGISTRY[algorithm].costs[collective]
        rows = schedule.expand()
        measured = pool.run(measure, algorithm, collective, True)
        counted = np.array([row for row, _, _ in measured])  # receiver, sender, (bytes, messages)
        messages = np.zeros((ranks, ranks), dtype=np.int64)
        np.add.at(messages, (rows.target, rows.source), rows.source != rows.target)
        assert np.array_equal(counted[:, :, 1], messages), (algorithm, collective)
        rounds, sent = cost.evaluate(ranks, schedule.chunks * measured[0][2])
        busiest = counted[:, :, 0].sum(axis=0).max()
        for formula, stated, is_so in ((cost.rounds, rounds, schedule.rounds), (cost.sent, sent, busiest)):
            bound = isinstance(formula, AtMost)
            assert is_so <= stated if bound else is_so == pytest.approx(stated), (algorithm, collective, formula)


def test_a_ring_moves_two_sizes_less_two_nths(pools: Pools, engine: str) -> None:
    for ranks in (2, 4, 7):
        size = ranks * ELEMENTS * 8
        for counted, _, _ in pools(engine, ranks).run(measure, "ring", "all_reduce"):
            assert sum(b for b, _ in counted) == 2 * size * (ranks - 1) // ranks
            assert sum(m for _, m in counted) == 2 * (ranks - 1)


@pytest.mark.parametrize("ranks", [5, 8])
def test_the_busiest_rank_sends_twice_as_much_in_the_naive_tree_as_in_the_double_tree(
    pools: Pools, engine: str, ranks: int
) -> None:
    sent = []
    for tree in ("binary_tree", "double_tree"):
        rows = pools(engine, ranks).run(measure, tree, "broadcast")
        size = build(tree, "broadcast", ranks).chunks * ELEMENTS * 8
        sent.append(np.array([counted for counted, _, _ in rows])[:, :, 0].sum(axis=0).max() / size)
    assert sent == [2, 1]


def big(comm: Communicator) -> list[list[int]]:
    comm.reset_counters()
    comm.all_reduce(np.ones(300_000), algorithm="ring")
    counted: list[list[int]] = comm.counters().tolist()
    return counted


def test_windows_change_the_messages_but_not_the_bytes(pools: Pools, engine: str) -> None:
    for counted in pools(engine, 3).run(big):
        assert sum(b for b, _ in counted) == 2 * 300_000 * 8 * 2 // 3
        assert sum(m for _, m in counted) > 4
