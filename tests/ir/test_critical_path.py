"""The critical path is without a gap, and is the known one where it is known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.ir.critical_path import PathStep, critical_path, seconds_by_rank, seconds_by_what
from ringtree.ir.trace import Event, Trace

COPY, REDUCE, SEND, WAIT, STALL, COMPUTE = Event
Row = tuple[int, Event, float, float, int]


def trace(ranks: int, *rows: Row, call: list[int] | int = 0) -> Trace:
    """From (rank, kind, start, end, peer)."""
    rank, kind, start, end, peer = zip(*rows, strict=True)
    return Trace.of(ranks, rank, kind, start, end, peer=peer, call=call, calls=["", "again"])


def steps(path: list[PathStep]) -> list[str]:
    return [f"{s.rank} {s.what} {s.start_s:g}-{s.end_s:g}" for s in path]


def test_a_chain() -> None:
    path = critical_path(
        trace(
            3,
            (0, COPY, 0, 2, -1), (0, SEND, 2, 5, 1), (1, WAIT, 0, 5, 0), (1, COPY, 5, 7, 0), (1, SEND, 7, 10, 2),
            (2, WAIT, 0, 10, 1), (2, COPY, 10, 12, 1),
        )
    )  # fmt: skip
    assert steps(path) == ["0 copy 0-2", "0 message 2-5", "1 copy 5-7", "1 message 7-10", "2 copy 10-12"]
    assert [s.event for s in path] == [0, 1, 3, 4, 6]
    assert seconds_by_what(path) == {"copy": 6, "message": 6}
    assert seconds_by_rank(path) == {0: 5, 1: 5, 2: 2}


def test_a_straggler_is_idle_before_it_begins() -> None:
    path = critical_path(
        trace(2, (0, SEND, 0, 1, 1), (1, SEND, 8, 9, 0), (1, WAIT, 8, 8, 0), (0, WAIT, 0, 9, 1), (0, REDUCE, 9, 10, 1))
    )
    assert steps(path) == ["1 idle 0-8", "1 message 8-9", "0 reduce 9-10"]


def test_a_message_that_was_there_leads_nowhere() -> None:
    path = critical_path(trace(2, (0, SEND, 0, 1, 1), (1, COPY, 0, 5, -1), (1, WAIT, 5, 5.5, 0), (1, COPY, 5.5, 6, 0)))
    assert steps(path) == ["1 copy 0-5", "1 wait 5-5.5", "1 copy 5.5-6"]


def test_a_late_sender_and_the_receivers_own_share() -> None:
    path = critical_path(
        trace(2, (0, STALL, 0, 3, 1), (0, SEND, 4, 6, 1), (1, COPY, 0, 1, -1), (1, WAIT, 1, 7, 0), (1, COPY, 7, 8, 0))
    )
    assert steps(path) == ["0 stall 0-3", "0 idle 3-4", "0 message 4-6", "1 wait 6-7", "1 copy 7-8"]


def test_a_message_that_took_no_time_leads_to_its_sender() -> None:
    path = critical_path(trace(2, (0, COPY, 0, 5, -1), (0, SEND, 5, 5, 1), (1, WAIT, 1, 6, 0), (1, COPY, 6, 7, 0)))
    assert steps(path) == ["0 copy 0-5", "1 wait 5-6", "1 copy 6-7"]


def test_a_sender_may_record_after_the_receiver() -> None:
    """Clocks of a real run: the SEND ends later than the WAIT, or even begins later."""
    path = critical_path(trace(2, (0, SEND, 1, 5, 1), (1, WAIT, 0, 4, 0), (1, COPY, 5, 6, 0)))
    assert steps(path) == ["0 idle 0-1", "0 message 1-4", "1 idle 4-5", "1 copy 5-6"]
    path = critical_path(trace(2, (0, SEND, 4.5, 5, 1), (1, WAIT, 0, 4, 0), (1, COPY, 4, 6, 0)))
    assert steps(path) == ["1 wait 0-4", "1 copy 4-6"]


def test_a_message_that_takes_no_time_leads_to_its_sender() -> None:
    """As a run records it: to send is a moment, and may be the moment in which the receiver has it."""
    for moment in (3, 4):
        path = critical_path(
            trace(2, (0, COPY, 0, 3, -1), (0, SEND, moment, moment, 1), (1, WAIT, 1, 4, 0), (1, COPY, 4, 6, 0))
        )
        assert steps(path) == ["0 copy 0-3", "1 wait 3-4" if moment == 3 else "0 idle 3-4", "1 copy 4-6"]


def test_messages_at_one_moment_do_not_lead_round_in_a_circle() -> None:
    path = critical_path(
        trace(2, (0, SEND, 2, 2, 1), (1, SEND, 2, 2, 0), (0, WAIT, 0, 2, 1), (1, WAIT, 0, 2, 0), (1, COPY, 2, 3, -1))
    )
    assert steps(path) == ["1 wait 0-2", "1 copy 2-3"]


def test_a_message_may_be_last() -> None:
    assert steps(critical_path(trace(2, (0, COPY, 0, 1, -1), (0, SEND, 1, 9, 1)))) == [
        "0 copy 0-1",
        "0 message 1-9",
    ]


def test_calls_that_overlap_on_a_rank_stay_apart_and_calls_in_turn_follow() -> None:
    overlapping = trace(1, (0, COPY, 0, 4, -1), (0, COPY, 4, 8, -1), (0, COPY, 2, 7, -1), call=[0, 0, 1])
    assert [s.event for s in critical_path(overlapping)] == [0, 1]
    in_turn = trace(1, (0, COPY, 0, 4, -1), (0, COPY, 4, 8, -1), call=[0, 1])
    assert [s.event for s in critical_path(in_turn)] == [0, 1]


@pytest.mark.parametrize("events", [[], [0.5]])
def test_nothing_that_takes_time(events: list[float]) -> None:
    assert critical_path(Trace.of(1, [0] * len(events), COPY, events, events)) == []


@st.composite
def any_traces(draw: st.DrawFn) -> Trace:
    """Causes after effects, overlaps and all."""
    row = st.tuples(
        st.integers(0, 2), st.sampled_from(Event), st.integers(0, 20), st.integers(0, 9), st.integers(0, 2),
        st.integers(0, 1),
    )  # fmt: skip
    rank, kind, start, length, peer, call = map(
        np.array, zip(*draw(st.lists(row, min_size=1, max_size=25)), strict=True)
    )
    return Trace.of(3, rank, kind, start, start + length, peer=peer, call=call, calls=["a", "b"])


@given(any_traces())
def test_a_path_has_no_gap_and_sums_to_the_makespan(trace: Trace) -> None:
    path = critical_path(trace)
    assert sum(s.end_s - s.start_s for s in path) == trace.makespan_s
    assert sum(seconds_by_what(path).values()) == sum(seconds_by_rank(path).values()) == trace.makespan_s
    if not path:
        return
    assert (path[0].start_s, path[-1].end_s) == (trace.start_s.min(), trace.end_s.max())
    for a, b in pairwise(path):
        assert a.end_s == b.start_s
    for step in path:
        assert step.end_s > step.start_s
        if step.event >= 0:
            assert step.rank == trace.rank[step.event]
            assert trace.start_s[step.event] <= step.start_s and step.end_s <= trace.end_s[step.event]
