"""One buffer instead of two, the same collective."""

from __future__ import annotations

import pytest
from hypothesis import given

from ringtree import algorithms
from ringtree.ir.schedule import Schedule
from ringtree.transform import in_place
from tests.transform.cases import built, keeps_its_promise, relay


@given(built())
def test_the_schedule_is_in_place_and_right(schedule: Schedule) -> None:
    placed = in_place(schedule)
    assert placed.in_place
    keeps_its_promise(placed)
    assert placed.chunks_sent().tolist() == schedule.chunks_sent().tolist()
    assert in_place(placed) is placed


def test_scratch_and_output_lie_side_by_side() -> None:
    keeps_its_promise(relay())
    placed = in_place(relay())
    assert (placed.in_place, placed.scratch) == (True, 1 + 2)
    keeps_its_promise(placed)


def test_chunks_that_stay_need_no_scratch() -> None:
    placed = in_place(algorithms.build("two_shot", "all_gather", 5))
    assert (placed.scratch, placed.rounds, placed.transfers) == (0, 1, 20)


def test_reduced_chunks_are_collected_aside() -> None:
    placed = in_place(algorithms.build("two_shot", "reduce_scatter", 5))
    assert (placed.scratch, placed.rounds) == (1, 2)


@pytest.mark.parametrize("n", [1, 4])
def test_two_buffer_ones_compose_once_in_place(n: int) -> None:
    scatter, gather = (in_place(algorithms.build("two_shot", c, n)) for c in ("reduce_scatter", "all_gather"))
    keeps_its_promise(scatter.then(gather, "all_reduce"))
    keeps_its_promise(scatter.then(algorithms.build("ring", "all_gather", n), "all_reduce"))
