"""`comm.span(...)`: the program's own work in a trace, while somebody records."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ringtree.ir.trace import Event, Trace
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools


def steps(comm: Communicator) -> Trace:
    """Rank 1 works longer; in the first span a message is waited for."""
    with comm.span("before anybody records"):
        pass
    with comm.trace() as recording:
        for step in range(2):
            with comm.span(f"step {step}"):
                time.sleep(0.01 * (1 + comm.rank))
                comm.all_reduce(np.ones(5, np.float32))
                with comm.span("inner"):
                    time.sleep(0.01)
    return recording.trace


def test_spans_are_compute_and_named(pools: Pools, engine: str) -> None:
    for trace in pools(engine, 2).run(steps):
        own = trace.take(trace.kind == Event.COMPUTE)
        assert sorted(trace.calls[call] for call in own.call) == sorted(["inner"] * 4 + ["step 0", "step 1"] * 2)
        assert not own.nbytes.any()
        assert set(own.peer.tolist()) == set(own.chunk.tolist()) == {-1}
        assert "before anybody records" not in trace.calls
        step = own.take(own.call == trace.calls.index("step 0"))
        inner = own.take(own.call == trace.calls.index("inner"))
        assert (step.end_s - step.start_s >= 0.02).all()
        for rank in range(2):
            begin, end = (float(c[step.rank == rank][0]) for c in (step.start_s, step.end_s))
            mine = trace.take((trace.rank == rank) & (trace.kind == Event.WAIT))
            assert ((mine.start_s >= begin) & (mine.end_s <= end)).any()  # one clock for all
            assert ((inner.start_s >= begin) & (inner.end_s <= end) & (inner.rank == rank)).sum() == 1


def test_spans_have_a_channel_of_their_own(pools: Pools, engine: str) -> None:
    trace = pools(engine, 2).run(steps)[0]
    [channel] = set(trace.channel[trace.kind == Event.COMPUTE].tolist())
    assert channel > 0
    assert trace.facts[f"channel {channel}"] == "spans of ranks 0, 1"


def ends(comm: Communicator) -> tuple[list[str], list[str]]:
    """A block that raises ends its span; each recording has the spans that ended in it."""
    with comm.trace() as outer:
        with pytest.raises(KeyError), comm.span("raises"):
            raise KeyError
        with comm.trace() as inner, comm.span("inside"):
            pass
    return named(outer.trace), named(inner.trace)


def named(trace: Trace) -> list[str]:
    return sorted(trace.calls[call] for call in trace.call[trace.kind == Event.COMPUTE])


def test_a_span_ends_however_it_is_left(pools: Pools, engine: str) -> None:
    for outer, inner in pools(engine, 2).run(ends):
        assert outer == ["inside"] * 2 + ["raises"] * 2
        assert inner == ["inside"] * 2


def test_nothing_is_kept_where_nobody_records(pools: Pools, engine: str) -> None:
    def nothing(comm: Communicator) -> bool:
        return comm.span("a") is comm.span("b")

    from tests.runtime.tracing.test_tracing import spawned

    assert all(spawned(engine, 2, nothing))
