"""Reductions gathered into one: the same promise, the same bytes, no more rounds, fewer and wider instructions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from ringtree.algorithms import build
from ringtree.ir.lower import lower_rank
from ringtree.ir.program import Kind
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import many_source, pipeline
from tests.transform.cases import STRANGE, built, keeps_its_promise


@given(built())
def test_gathered_is_right_and_sends_as_much(schedule: Schedule) -> None:
    got = many_source(schedule)
    assert got.rounds <= schedule.rounds
    assert np.array_equal(got.chunks_sent(), schedule.chunks_sent())
    keeps_its_promise(got)
    keeps_its_promise(pipeline(got, 3))


@pytest.mark.parametrize("schedule", STRANGE, ids=lambda s: s.name)
def test_strange_ones_are_right_too(schedule: Schedule) -> None:
    keeps_its_promise(many_source(schedule))


def widest(schedule: Schedule, rank: int) -> int:
    return max(len(i.sources) for i in lower_rank(schedule, rank).instructions if i.kind is Kind.REDUCE)


def test_the_root_of_a_binomial_tree_adds_up_all_children_at_once() -> None:
    s = build("binomial", "reduce", 8, 0)
    assert (widest(s, 0), widest(many_source(s), 0)) == (2, 4)
    assert many_source(s).rounds == s.rounds


def test_a_ring_has_nothing_to_gather() -> None:
    s = build("ring", "all_reduce", 5)
    assert many_source(s) is s


def test_chunks_read_meanwhile_or_of_a_busy_sender_stay() -> None:
    read = Transfers.of([1, 0, 2], [0, 3, 0], round=[0, 1, 2], reduce=[True, False, True])
    busy = Transfers.of([1, 1, 2], [0, 3, 0], round=[0, 1, 2], reduce=[True, False, True])
    stored = Transfers.of([1, 3, 2], [0, 0, 0], round=[0, 1, 2], reduce=[True, False, True])
    for rows in (read, busy, stored):
        s = Schedule("kept", "reduce", 4, 1, (Block(rows),), 0)
        assert many_source(s) is s
