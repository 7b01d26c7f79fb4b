"""`comm.trace()`: the events are those of the run, on every engine, in every group, and also after a failure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree.errors import RankFailed
from ringtree.ir.program import Kind
from ringtree.ir.trace import Event, Trace
from ringtree.ir.units import count
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.conftest import Pools

LARGE = 40_000  # elements: several windows of the reference engine's slots


def traced(comm: Communicator, work: Callable[[Communicator], object], **options: Any) -> tuple[Trace, Any]:
    """The trace of what `work` does, and the bytes that came from each rank by the engine's own account."""
    comm.barrier()
    comm.reset_counters()
    with comm.trace(**options) as recording:
        work(comm)
        counted = comm.counters()[:, 0]
    return recording.trace, counted


def several(comm: Communicator) -> None:
    comm.all_reduce(np.ones(3, np.float32))
    comm.all_reduce(np.ones(LARGE, np.float32), algorithm="ring")
    comm.broadcast(np.ones(50, np.int64), root=comm.size - 1)
    comm.barrier()
    comm.all_reduce(np.ones(7, np.float32), op="avg", async_op=True).wait()


def symmetric(comm: Communicator) -> None:
    """Peers read what lies there in place: nothing is staged, and no slot is waited for."""
    x = comm.empty(LARGE, np.float32)
    x[:] = 1
    comm.all_reduce(x, out=x)


def many(comm: Communicator) -> None:
    for _ in range(200):
        comm.all_reduce(np.ones(4, np.float32))


def spawned(engine: str, ranks: int, work: Callable[[Communicator], Any]) -> list[Any]:
    """Runs a closure, which cannot be given to a pool's processes, or what ends a pool."""
    return ringtree.spawn(work, ranks, engine=engine, threads=in_threads(engine), timeout_s=60)


PROGRAMS = [several, symmetric, many]


@pytest.mark.parametrize("work", PROGRAMS)
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_bytes_are_those_that_the_engine_counts(
    pools: Pools, engine: str, ranks: int, work: Callable[[Communicator], object]
) -> None:
    given = pools(engine, ranks).run(traced, work)
    trace = given[0][0]
    assert trace.sent_nbytes().tolist() == np.stack([counted for _, counted in given], axis=1).tolist()
    assert all(other.calls == trace.calls and np.array_equal(other.start_s, trace.start_s) for other, _ in given)
    assert trace.facts["source"] == "measured"
    assert "dropped" not in trace.facts


def test_the_machine_has_the_cores_of_all_ranks() -> None:
    cores = sorted(os.sched_getaffinity(0))

    def work(comm: Communicator) -> str:
        os.sched_setaffinity(0, {cores[comm.rank % len(cores)]})
        with comm.trace() as recording:
            comm.barrier()
        return recording.trace.facts["machine"]

    assert all(fact.startswith(count(len(cores), "core") + ", ") for fact in ringtree.spawn(work, 2))


@pytest.mark.parametrize("work", PROGRAMS)
@pytest.mark.parametrize("ranks", [2, 5])
def test_every_message_was_sent_before_it_was_there(
    pools: Pools, engine: str, ranks: int, work: Callable[[Communicator], object]
) -> None:
    trace = pools(engine, ranks).run(traced, work)[0][0]
    send, wait = trace.messages()
    assert len(send) == np.sum(trace.kind == Event.SEND) == np.sum(trace.kind == Event.WAIT) > 0
    assert np.array_equal(trace.nbytes[send], trace.nbytes[wait])
    assert np.array_equal(trace.chunk[send], trace.chunk[wait])
    assert np.array_equal(trace.call[send], trace.call[wait])
    # the clock is read when a call's first message is out; a rank that shares a core may have lost it in between
    most = 0.01 if ranks > len(os.sched_getaffinity(0)) else 0.0
    assert np.mean(trace.end_s[wait] < trace.start_s[send]) <= most
    assert trace.start_s.min() == 0.0


def test_a_rank_runs_its_program_in_order(engine: str) -> None:
    def kinds(comm: Communicator) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        x = np.ones(64, np.float32)
        program = comm.chosen("all_reduce", 64, algorithm="ring").part.program
        trace, _ = traced(comm, lambda comm: comm.all_reduce(x, algorithm="ring"))
        mine = trace.take(trace.rank == comm.rank)
        assert (mine.start_s[1:] >= mine.end_s[:-1]).all()
        events = {Kind.REDUCE: Event.REDUCE, Kind.SIGNAL: Event.SEND, Kind.WAIT: Event.WAIT}
        want = [(int(events[i.kind]), i.peer) for i in program.instructions if i.kind in events]
        reduced = mine.take(mine.kind == Event.REDUCE)
        assert set(reduced.peer.tolist()) == {(comm.rank - 1) % comm.size}  # whose message is added
        assert (mine.chunk >= 0).all()
        rest = mine.take(mine.kind != Event.COPY)  # what need not be staged is not copied
        return [(k, -1 if k == Event.REDUCE else p) for k, p in zip(rest.kind, rest.peer, strict=True)], want

    for got, want in spawned(engine, 4, kinds):
        assert got == want


def test_calls_are_named_with_their_algorithm(pools: Pools, engine: str) -> None:
    trace = pools(engine, 2).run(traced, several)[0][0]
    assert "all_reduce(float32, sum, count 40000) by ring" in trace.calls
    assert any(call.startswith("broadcast(int64, count 50, root 1) by ") for call in trace.calls)
    assert len(set(trace.calls)) == len(trace.calls) == 5


def in_groups(comm: Communicator) -> None:
    pair = comm.group([2, 0]) if comm.rank != 1 else None
    if pair is not None:
        pair.all_gather(np.ones(5, np.float32))
        pair.close()
    comm.all_reduce(np.ones(5, np.float32))


def test_groups_have_channels_of_their_own(pools: Pools, engine: str) -> None:
    trace = pools(engine, 3).run(traced, in_groups)[0][0]
    inner, outer = trace.take(trace.channel == 1), trace.take(trace.channel == 0)
    assert trace.facts["channel 1"] == "ranks 2, 0"
    assert set(inner.rank.tolist()) == {0, 2}
    assert set(outer.rank.tolist()) == {0, 1, 2}
    assert inner.sent_nbytes()[[0, 2], [2, 0]].tolist() == [20, 20]
    assert len(trace.messages()[0]) == np.sum(trace.kind == Event.SEND)


def before_and_beside(comm: Communicator) -> tuple[int, int]:
    """A group from before, and the hidden one that has more slots."""
    group = comm.split(0)
    assert group is not None
    with comm.trace() as recording:
        group.barrier()
        comm.all_to_all(np.ones((comm.size, 9), np.float32), algorithm="pairwise")
    with group.trace() as inner:
        group.barrier()
        comm.barrier()
    group.close()
    return len(set(recording.trace.channel.tolist())), len(set(inner.trace.channel.tolist()))


def test_the_span_of_a_recording(pools: Pools, engine: str) -> None:
    assert set(pools(engine, 3).run(before_and_beside)) == {(2, 1)}


LATE_S = 0.05


def held_up(comm: Communicator) -> Trace:
    """Rank 1 comes late, and rank 0 has more to send than slots."""
    x = np.ones(LARGE * 16, np.float32)
    comm.barrier()
    with comm.trace() as recording:
        if comm.rank == 1:
            time.sleep(LATE_S)
        comm.broadcast(x, root=0)
    return recording.trace


def test_a_wait_for_room_names_the_rank_that_frees_it(pools: Pools, engine: str) -> None:
    trace = pools(engine, 2).run(held_up)[0]
    stalls = trace.take(trace.kind == Event.STALL)
    assert set(stalls.rank.tolist()) == {0}
    assert set(stalls.peer.tolist()) == {1}
    late_s = trace.start_s[trace.rank == 1].min() - trace.start_s[trace.rank == 0].min()
    assert (stalls.end_s - stalls.start_s).max() > 0.5 * late_s
    assert not stalls.nbytes.any()


def test_a_division_at_the_end_is_a_reduction_of_nobodys_message(pools: Pools, engine: str) -> None:
    trace = pools(engine, 2).run(traced, several)[0][0]
    divided = trace.take((trace.kind == Event.REDUCE) & (trace.peer == -1))
    assert {trace.calls[call].split(" by ")[0] for call in divided.call} == {"all_reduce(float32, avg, count 7)"}
    assert divided.nbytes.tolist() == [28, 28]


def nested(comm: Communicator) -> tuple[int, int]:
    def sends(trace: Trace) -> int:
        return sum("count 3)" in trace.calls[c] for c in trace.call[trace.kind == Event.SEND])

    x = np.ones(3, np.float32)
    with comm.trace() as outer:
        comm.all_reduce(x)
        with comm.trace() as inner:
            comm.all_reduce(x)
        comm.all_reduce(x)
    return sends(outer.trace), sends(inner.trace)


def unfinished(comm: Communicator) -> Trace:
    with comm.trace() as recording:
        for _ in range(20):
            comm.all_reduce(np.ones(LARGE, np.float32), async_op=True)
    return recording.trace


def test_asynchronous_calls_end_before_the_block(pools: Pools, engine: str) -> None:
    trace = pools(engine, 2).run(unfinished)[0]
    assert trace.sent_nbytes().tolist() == [[0, 20 * 4 * LARGE], [20 * 4 * LARGE, 0]]


def test_recordings_may_lie_in_one_another(pools: Pools, engine: str) -> None:
    assert set(pools(engine, 2).run(nested)) == {(6, 2)}


def test_excess_events_are_dropped_and_counted(pools: Pools, engine: str) -> None:
    (whole, _), *_ = pools(engine, 2).run(traced, many)
    (cut, counted), *_ = pools(engine, 2).run(cut_short)
    assert len(cut) == 2 * 100
    assert 0 < int(cut.facts["dropped"]) <= len(whole)
    assert counted[1] == 200 * 16  # all was done all the same
    assert len(cut.messages()[0]) > 0


def cut_short(comm: Communicator) -> tuple[Trace, Any]:
    return traced(comm, many, most_events=100)


def failing(comm: Communicator) -> Trace:
    comm.barrier()
    with pytest.raises(KeyError), comm.trace() as recording:
        comm.all_reduce(np.ones(3, np.float32))
        raise KeyError
    comm.barrier()
    return recording.trace


def test_a_block_that_raises_leaves_its_events(pools: Pools, engine: str) -> None:
    for rank, trace in enumerate(pools(engine, 2).run(failing)):
        assert set(trace.rank.tolist()) == {rank}
        assert {Event.SEND, Event.WAIT} <= set(trace.kind.tolist())


def test_a_call_that_fails_leaves_its_events(engine: str) -> None:
    def work(comm: Communicator) -> None:
        try:
            with comm.trace() as recording:
                comm.all_reduce(np.ones(3, np.float32))
                comm.all_reduce(np.ones(3 + comm.rank, np.float32), algorithm="ring")
        finally:
            assert "all_reduce(float32, sum, count 3) by" in recording.trace.calls[0]
            assert len(recording.trace) > 0

    with pytest.raises(RankFailed, match="called"):
        spawned(engine, 2, work)


def off(comm: Communicator) -> tuple[Any, Any]:
    with comm.trace():
        during = comm._endpoint.recorded()
        comm.barrier()
    return during, comm._endpoint.recorded()


def test_nothing_is_kept_when_tracing_is_off(pools: Pools, engine: str) -> None:
    for during, after in pools(engine, 2).run(off):
        assert len(during[0]) == 0
        assert after is None


def misuse(comm: Communicator) -> None:
    with pytest.raises(ValueError, match="most_events is 0; expected at least 1"):
        comm.trace(most_events=0)
    with pytest.raises(ValueError, match="expected at least 1, and less than 2"):
        comm.trace(most_events=1 << 64)
    recording = comm.trace()
    with pytest.raises(RuntimeError, match="when its block has ended"):
        _ = recording.trace
    with recording:
        pass
    with pytest.raises(RuntimeError, match="records once"):
        recording.__enter__()


def test_misuse_raises(pools: Pools, engine: str) -> None:
    pools(engine, 1).run(misuse)
