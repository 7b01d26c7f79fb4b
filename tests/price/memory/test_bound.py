"""The least bytes read from peers, worked out by hand; and no prediction is below the bound."""

from __future__ import annotations

from itertools import product

import pytest

from ringtree.algorithms import pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import predict
from ringtree.plan.steps import wanted
from ringtree.price.memory import BUILT_IN, SharedMemory
from ringtree.price.memory.bound import bound_s, least_fetched


@pytest.mark.parametrize(
    ("collective", "total", "busiest"),
    [
        ("all_reduce", 6, 1.5),
        ("reduce_scatter", 3, 0.75),
        ("all_gather", 3, 0.75),
        ("broadcast", 3, 1),
        ("reduce", 3, 1),
        ("gather", 0.75, 0.75),
        ("scatter", 0.75, 0.25),
        ("all_to_all", 3, 0.75),
        ("scan", 3, 1),
        ("exscan", 3, 1),
        ("barrier", 0, 0),
    ],
)
def test_the_least_bytes_that_four_ranks_read(collective: str, total: float, busiest: float) -> None:
    assert least_fetched(collective, 4)[:2] == (total, busiest)


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_nothing_is_predicted_to_beat_it(algorithm: str, collective: str) -> None:
    root = 0 if COLLECTIVES[collective].rooted else None
    for ranks, cores, nbytes, attached in product((1, 2, 6), (2, 8), (8, 1 << 16, 1 << 22, 1 << 26), (0, 1 << 22)):
        memory = SharedMemory(cores, 8, 1 << 17, single_copy_bytes=attached)
        steps = wanted(algorithm, collective, ranks, root, nbytes, memory)
        time_s = predict(algorithm, collective, ranks, root, nbytes, steps, memory).seconds
        assert bound_s(collective, ranks, nbytes, memory) <= time_s * (1 + 1e-9), (ranks, cores, nbytes)


@pytest.mark.parametrize(("ranks", "cores", "by_turns"), [(4, 8, False), (4, 4, False), (4, 2, True)])
def test_a_small_call_is_a_meeting_or_turns(ranks: int, cores: int, by_turns: bool) -> None:
    found = bound_s("all_reduce", ranks, 8, SharedMemory(cores, 8, 1 << 17))
    share = 2 if by_turns else 1
    assert found == BUILT_IN.call_s * share + (BUILT_IN.turn_s * share if by_turns else BUILT_IN.latency_s)


@pytest.mark.parametrize(("cores", "read"), [(8, 1.5), (4, 1.5), (2, 3)])
def test_a_long_call_takes_the_time_of_its_least_reads(cores: int, read: float) -> None:
    """Six vectors in all, one and a half by each of four ranks."""
    nbytes = 1 << 28
    held_nbytes = nbytes * least_fetched("all_reduce", 4)[2] * max(4 / cores, 1)
    fetch_s = BUILT_IN.seconds_a_byte(held_nbytes, oversubscribed=cores < 4)[1]
    assert bound_s("all_reduce", 4, nbytes, SharedMemory(cores, 8, 1 << 17)) == pytest.approx(read * nbytes * fetch_s)
