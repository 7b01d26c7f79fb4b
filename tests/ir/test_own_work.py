"""The remaining work of a program whose rank did something else meanwhile."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ringtree.ir.critical_path import critical_path
from ringtree.ir.own_work import uncovered
from ringtree.ir.trace import Event, Trace

COPY, REDUCE, SEND, WAIT, STALL, COMPUTE = Event


def pieces(trace: Trace) -> list[tuple[int, float, float]]:
    cut, index = uncovered(trace)
    own = np.flatnonzero((cut.kind == COMPUTE) & (cut.end_s > cut.start_s))
    return list(zip(index[own].tolist(), cut.start_s[own].tolist(), cut.end_s[own].tolist(), strict=True))


def test_other_events_and_later_spans_cut_a_span() -> None:
    """0 to 10, in it a wait, a message under way and a span; beside it another rank's."""
    trace = Trace.of(
        2, [0, 0, 0, 0, 1], [COMPUTE, WAIT, SEND, COMPUTE, COMPUTE], [0, 2, 4, 6, 1], [10, 3, 5, 8, 2], peer=1
    )
    assert pieces(trace) == [(0, 0, 2), (0, 3, 6), (3, 6, 8), (0, 8, 10), (4, 1, 2)]


def test_a_trace_without_spans_is_left_alone() -> None:
    trace = Trace.of(1, 0, COPY, 0, 1)
    assert uncovered(trace)[0] is trace


@st.composite
def any_traces(draw: st.DrawFn) -> Trace:
    row = st.tuples(st.integers(0, 1), st.sampled_from(Event), st.integers(0, 12), st.integers(0, 6))
    rank, kind, start, length = map(np.array, zip(*draw(st.lists(row, min_size=1, max_size=12)), strict=True))
    return Trace.of(2, rank, kind, start, start + length, peer=0)


@given(any_traces())
def test_every_moment_of_a_span_is_somebodys_once(trace: Trace) -> None:
    """By a second account, moment by moment."""
    found = {(trace.rank[event], t) for event, a, b in pieces(trace) for t in range(int(a), int(b))}
    assert len(found) == sum(b - a for _, a, b in pieces(trace))

    def at(t: int, rank: int) -> set[Event]:
        on = (trace.rank == rank) & (trace.start_s <= t) & (t < trace.end_s)
        return {Event(k) for k in trace.kind[on]} - {SEND}

    assert found == {(rank, t) for rank in range(2) for t in range(20) if at(t, rank) == {COMPUTE}}
    for event, start, end in pieces(trace):
        assert trace.start_s[event] <= start < end <= trace.end_s[event]


def test_the_critical_path_passes_through_own_work() -> None:
    """Rank 0 computes and sends; rank 1 waits for it, in a call that it made before, and computes."""
    trace = Trace.of(
        2, [0, 1, 0, 0, 1, 1], [SEND, WAIT, COMPUTE, SEND, WAIT, COMPUTE], [0, 0, 0, 5, 3, 6], [0, 1, 5, 5, 6, 8],
        peer=[1, 0, -1, 1, 0, -1], call=[0, 0, 1, 0, 0, 1], calls=["all_reduce", "own"],
    )  # fmt: skip
    assert [(s.what, s.rank, s.start_s, s.end_s) for s in critical_path(trace)] == [
        ("compute", 0, 0, 5), ("wait", 1, 5, 6), ("compute", 1, 6, 8),
    ]  # fmt: skip
