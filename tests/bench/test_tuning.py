"""The measurements of `ringtree tune`: ranks on the cores that determine what bytes between NUMA nodes cost."""

from __future__ import annotations

import os

import pytest

from ringtree.bench import contenders
from ringtree.bench.tuning import LEAST_NBYTES, as_measured, in_turns, rows, spread_over_nodes, tune

TWO_SOCKETS = {core: core // 4 for core in range(8)}


@pytest.mark.parametrize(
    ("ranks", "cores"), [(2, (0, 4)), (3, (0, 4)), (4, (0, 4, 1, 5)), (16, (0, 4, 1, 5, 2, 6, 3, 7)), (1, ())]
)
def test_as_many_ranks_on_each_node(ranks: int, cores: tuple[int, ...]) -> None:
    assert spread_over_nodes(TWO_SOCKETS, ranks) == cores


def test_the_smaller_node_decides() -> None:
    assert spread_over_nodes({0: 0, 1: 0, 2: 0, 9: 1}, 8) == (0, 9)
    assert spread_over_nodes({3: 1, 1: 0, 2: 2}, 8) == (3, 1, 2)


@pytest.mark.parametrize("nodes", [(None, None), (0, 0)])
def test_one_node_has_nothing_to_spread_over(nodes: tuple[int | None, ...]) -> None:
    assert spread_over_nodes(dict(enumerate(nodes)), 2) == ()


def test_ranks_are_measured_on_the_cores_that_are_given() -> None:
    last = max(os.sched_getaffinity(0))
    times, turns = in_turns(rows(1, 1, 64), 0.01, lambda text: None, [last], least=1)
    [case] = times
    assert turns and min(times[case]) > 0
    assert as_measured(case, 1e-6, 1, [last]).memory.node_of == ()


def test_no_turn_begins_after_the_time_but_the_least() -> None:
    table = rows(1, 1, 4096)
    assert in_turns(table, 0.0, lambda text: None) == ({}, 0)
    times, turns = in_turns(table, 0.0, lambda text: None, least=2)
    assert turns == 2 and list(times) == [*table[0], *table[1]]


def test_short_of_time_small_calls_alone_are_measured() -> None:
    found = tune([2], 1e-6, lambda text: None, 16 << 20, whole=False)
    assert {call.ranks for call in found.calls} == {1, 2} and max(call.nbytes for call in found.calls) == LEAST_NBYTES
    assert tune([2], 1e-6, lambda text: None, 512).turns == 4


def test_a_collective_that_lacks_a_size_is_not_corrected() -> None:
    table = contenders.rows(2, 512)
    names = [row[0].collective for row in table]
    assert names == sorted(names, key=names.index) and names[0] == names[1] != names[2]
    times = {case: [3.0, 1.0, 2.0] for row in table[:3] for case in row}
    assert contenders.complete(table, times) == {case: 2.0 for row in table[:2] for case in row}
