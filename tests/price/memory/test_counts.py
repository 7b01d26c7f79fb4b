"""Counts of each rank's work by a schedule, compared with lowered programs and with the algorithms' costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ringtree import transform
from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.program import Kind
from ringtree.ir.schedule import Block
from ringtree.price.memory.counting import COPIED, FETCHED, KINDS, MESSAGES, REDUCED, counts


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_messages_and_fetched_bytes_are_the_programs(algorithm: str, collective: str) -> None:
    for ranks in (2, 5, 8):
        schedule = build(algorithm, collective, ranks, 1 if COLLECTIVES[collective].rooted else None)
        total = counts(schedule).total
        for program in lower(schedule):
            mine = total[program.rank]
            assert mine[MESSAGES] == sum(i.kind in (Kind.SIGNAL, Kind.WAIT) for i in program.instructions)
            assert mine[FETCHED] == schedule.chunks_received()[program.rank]


def test_a_rank_copies_a_chunk_for_several_ranks_once() -> None:
    known = counts(build("flat", "broadcast", 5))
    root = known.work[:, 0].sum(axis=0)
    assert root[MESSAGES] == 4
    assert root[COPIED] == 2, "into a slot, and from the input to the output"
    assert known.work.shape == (2, 5, len(KINDS))


@pytest.mark.parametrize(("algorithm", "joined"), [("one_shot", 3), ("two_shot", 3 / 4), ("ring", 3 / 4)])
def test_joined_bytes_are_those_of_the_algorithm(algorithm: str, joined: float) -> None:
    known = counts(build(algorithm, "all_reduce", 4))
    assert np.allclose(known.total[:, REDUCED] / known.chunks, joined)


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_a_block_that_repeats_counts_as_much_as_written_out(algorithm: str, collective: str, ranks: int) -> None:
    schedule = build(algorithm, collective, ranks)
    for s in (schedule, transform.pipeline(schedule, 3)):
        known, plain = counts(s), counts(replace(s, blocks=(Block(s.expand()),)))
        assert np.array_equal(known.total, plain.total)
        assert (known.mutual, known.widest, known.held) == (plain.mutual, plain.widest, plain.held)
        assert known.synchronizations <= plain.synchronizations


def test_a_circle_repeats_and_a_pipeline_follows() -> None:
    ring, chain = build("ring", "all_gather", 5), transform.pipeline(build("chain", "broadcast", 5), 16)
    assert counts(ring).synchronizations == 4 and counts(ring).times.tolist() == [4, 3, 1], (
        "the last one keeps its own block"
    )
    assert counts(chain).synchronizations == 4 and counts(chain).times[8] == 15, (
        "and 15 more at the pace of the busiest"
    )


def test_a_memory_has_no_switches() -> None:
    schedule = replace(build("ring", "all_gather", 4), switches=1)
    with pytest.raises(ValueError, match="has 1 switches; expected none in shared memory"):
        counts(schedule)


def test_mutual_waiting_is_found() -> None:
    assert not counts(build("chain", "broadcast", 5)).mutual
    assert not counts(build("binomial", "reduce", 5)).mutual
    assert counts(build("parameter_server", "all_reduce", 5)).mutual
    assert counts(build("ring", "all_gather", 5)).mutual


@pytest.mark.parametrize("gathered", [False, True])
def test_a_sum_is_written_into_symmetric_arrays_worked_out_by_hand(gathered: bool) -> None:
    """Four ranks, two_shot: each reads its chunk where it lies in three arrays, adds up, and writes into three."""
    schedule = build("two_shot", "all_reduce", 4)
    schedule = transform.many_source(schedule) if gathered else schedule
    known, staged = counts(schedule, symmetric=True), counts(schedule)
    assert np.all(known.total[:, FETCHED] == 3) and np.all(staged.total[:, FETCHED] == 6)
    assert np.array_equal(known.total[:, MESSAGES], staged.total[:, MESSAGES])
    summed = staged.work[:2].sum(axis=0)[:, COPIED] - 3
    assert np.allclose(known.total[:, COPIED], summed + 3), "nothing is staged, and nothing copied out of a slot"


@pytest.mark.parametrize("algorithm", ["one_shot", "ring", "recursive_doubling"])
def test_sums_that_are_not_answers_are_staged_in_symmetric_arrays_too(algorithm: str) -> None:
    schedule = build(algorithm, "all_reduce", 4)
    assert np.array_equal(counts(schedule, symmetric=True).work, counts(schedule).work)


def test_the_bytes_of_ranks_arrays() -> None:
    assert counts(build("ring", "all_reduce", 4)).held == 2
    assert counts(build("two_shot", "all_gather", 4)).held == 5 / 4
    assert counts(build("ring", "all_reduce", 4)).synchronizations == 6
