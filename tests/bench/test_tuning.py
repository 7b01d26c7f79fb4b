"""The measurements of `ringtree tune`: ranks on the cores that determine what bytes between NUMA nodes cost."""

from __future__ import annotations

import os

import pytest

from ringtree.bench.tuning import as_measured, in_turns, rows, spread_over_nodes

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
    times, turns = in_turns(rows(1, 1, 64), 0.01, lambda text: None, [last])
    [case] = times
    assert turns and min(times[case]) > 0
    assert as_measured(case, 1e-6, 1, [last]).memory.node_of == ()
