"""What a schedule asks of each rank, held to what lowering writes and to what the algorithms state."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.program import Kind
from ringtree.plan.counts import COPIED, FETCHED, KINDS, MESSAGES, REDUCED, counts


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_messages_and_what_is_fetched_are_the_programs(algorithm: str, collective: str) -> None:
    for ranks in (2, 5, 8):
        schedule = build(algorithm, collective, ranks, 1 if COLLECTIVES[collective].rooted else None)
        work = counts(schedule).work
        for program in lower(schedule):
            mine = work[:, program.rank].sum(axis=0)
            assert mine[MESSAGES] == sum(i.kind in (Kind.SIGNAL, Kind.WAIT) for i in program.instructions)
            assert mine[FETCHED] == schedule.chunks_received()[program.rank]


def test_a_rank_copies_once_what_it_sends_to_several() -> None:
    known = counts(build("flat", "broadcast", 5))
    root = known.work[:, 0].sum(axis=0)
    assert root[MESSAGES] == 4
    assert root[COPIED] == 2, "into a slot, and from the input to the output"
    assert known.work.shape == (2, 5, len(KINDS))


@pytest.mark.parametrize(("algorithm", "joined"), [("one_shot", 3), ("two_shot", 3 / 4), ("ring", 3 / 4)])
def test_what_is_joined_is_what_the_algorithm_says(algorithm: str, joined: float) -> None:
    known = counts(build(algorithm, "all_reduce", 4))
    assert np.allclose(known.work[..., REDUCED].sum(axis=0) / known.chunks, joined)


def test_who_waits_for_whom() -> None:
    assert not counts(build("chain", "broadcast", 5)).mutual
    assert not counts(build("binomial", "reduce", 5)).mutual
    assert counts(build("parameter_server", "all_reduce", 5)).mutual
    assert counts(build("ring", "all_gather", 5)).mutual


def test_what_ranks_have_in_arrays() -> None:
    assert counts(build("ring", "all_reduce", 4)).held == 2
    assert counts(build("two_shot", "all_gather", 4)).held == 5 / 4
    assert counts(build("ring", "all_reduce", 4)).meetings == 6
