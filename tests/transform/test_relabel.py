"""Renamed ranks do the same collective, and each does the work of the rank it is named after."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import algorithms
from ringtree.ir.schedule import Schedule
from ringtree.transform import channels, pipeline, relabel
from tests.transform.cases import OF_NO_PREFIX, STRANGE, built, keeps_its_promise


@given(st.data(), built(collectives=OF_NO_PREFIX), st.integers(1, 3))
def test_any_order_keeps_the_promise(data: st.DataObject, schedule: Schedule, pieces: int) -> None:
    schedule = pipeline(schedule, pieces)
    order = data.draw(st.permutations(range(schedule.ranks)))
    renamed = relabel(schedule, order)
    keeps_its_promise(renamed)
    assert np.array_equal(renamed.chunks_sent()[order], schedule.chunks_sent())
    assert renamed.root == (None if schedule.root is None else order[schedule.root])
    assert relabel(renamed, np.argsort(order)) == schedule or schedule.promise.blocked  # rows may have been split


@given(built(collectives=OF_NO_PREFIX), st.integers(0, 8))
def test_a_rotation_keeps_the_blocks_as_short(schedule: Schedule, by: int) -> None:
    turned = relabel(schedule, (np.arange(schedule.ranks) + by) % schedule.ranks)
    keeps_its_promise(turned)
    assert [b.times for b in turned.blocks] == [b.times for b in schedule.blocks]


@pytest.mark.parametrize("schedule", STRANGE, ids=lambda s: f"{s.name}{s.ranks}")
def test_strange_ones_are_renamed_rightly(schedule: Schedule) -> None:
    for order in permutations(range(schedule.ranks)):
        keeps_its_promise(relabel(schedule, order))
        keeps_its_promise(relabel(pipeline(schedule, 2), order))


def test_a_ring_all_reduce_stays_short_under_any_order() -> None:
    ring = pipeline(algorithms.build("ring", "all_reduce", 5), 2)
    renamed = relabel(ring, [3, 1, 4, 0, 2])
    assert [(b.times, len(b.rows)) for b in renamed.blocks] == [(8, 5), (8, 5)]
    assert renamed.blocks[0].rows.source.tolist() == [3, 1, 4, 0, 2]
    assert renamed.blocks[0].rows.target.tolist() == [1, 4, 0, 2, 3]


def test_the_identity_changes_nothing() -> None:
    for name, collective in algorithms.pairs():
        schedule = algorithms.build(name, collective, 6)
        same = relabel(schedule, range(6))
        assert same == schedule or not np.all(schedule.expand().count == 1), (name, collective)


def test_counts_that_reach_over_blocks_are_split() -> None:
    gather = channels(pipeline(algorithms.build("halving_doubling", "all_gather", 8), 2), 1)
    assert max(b.rows.count.max() for b in algorithms.build("halving_doubling", "all_gather", 8).blocks) == 4
    keeps_its_promise(relabel(algorithms.build("halving_doubling", "all_gather", 8), [7, 0, 3, 6, 1, 2, 5, 4]))
    keeps_its_promise(relabel(gather, [7, 0, 3, 6, 1, 2, 5, 4]))


def test_a_prefix_goes_by_rank() -> None:
    scan = algorithms.build("hillis_steele", "scan", 4)
    with pytest.raises(
        ValueError, match="hillis_steele: scan depends on the order of ranks; expected a collective that does not"
    ):
        relabel(scan, [1, 0, 2, 3])


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 1, 1, 2], [1, 2, 3, 4], [0.5, 1, 2, 3]])
def test_wrong_orders_are_refused(order: list[int]) -> None:
    with pytest.raises(ValueError, match=r"ring: order is not a permutation of its ranks 0\.\.3"):
        relabel(algorithms.build("ring", "all_reduce", 4), order)
