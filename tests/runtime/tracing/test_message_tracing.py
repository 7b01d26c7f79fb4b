"""Messages between two ranks in `comm.trace()`: by every form, in whatever order they are taken, moved by whomever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree.ir.trace import Event, Trace
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools
from tests.runtime.tracing.test_tracing import spawned, traced

LARGE = 300_000  # float64: more than all pieces of a pipe hold


def in_a_circle(comm: Communicator) -> None:
    to, source = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for count in (0, 3, LARGE):
        comm.sendrecv(np.ones(count), to, np.empty(count), source, tag=count)


def backwards(comm: Communicator) -> None:
    """Each tag is asked for before those that were sent earlier."""
    sends = [comm.isend(np.full(10 + tag, tag), dst, tag) for tag in range(8) for dst in range(comm.size)]
    comm.barrier()
    for source in range(comm.size):
        for tag in (5, 7, 6, 1, 0, 2, 4, 3):
            y = comm.recv(np.empty(10 + tag, np.int64), source, tag)
            assert (y == tag).all()
    for message in sends:
        message.wait()


def posted(comm: Communicator) -> None:
    """Moved while the program computes, and waited for in another order."""
    receives = [comm.irecv(np.empty(LARGE), src, tag) for tag in range(2) for src in range(comm.size)]
    sends = [comm.isend(np.ones(LARGE), dst, tag) for tag in (1, 0) for dst in range(comm.size)]
    for message in sends + receives:
        message.wait()


def in_parts(comm: Communicator) -> None:
    xs = [np.ones(comm.rank + dst) for dst in range(comm.size)]
    comm.exchange_parts(xs, [np.empty(comm.rank + src) for src in range(comm.size)])


def by_a_function(comm: Communicator) -> None:
    """A reduction that is made of messages."""
    comm.all_reduce(np.ones(50), op=np.add)


PROGRAMS = [in_a_circle, backwards, posted, in_parts, by_a_function]


@pytest.mark.parametrize("work", PROGRAMS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_messages_pair_and_are_those_that_the_engine_counts(
    pools: Pools, engine: str, ranks: int, work: Callable[[Communicator], object]
) -> None:
    given = pools(engine, ranks).run(traced, work)
    trace = given[0][0]
    assert trace.sent_nbytes().tolist() == np.stack([counted for _, counted in given], axis=1).tolist()
    send, wait = trace.messages()
    assert len(send) == np.sum(trace.kind == Event.SEND) == np.sum(trace.kind == Event.WAIT) > 0
    assert np.array_equal(trace.nbytes[send], trace.nbytes[wait])
    assert np.array_equal(trace.call[send], trace.call[wait])
    assert (trace.end_s[wait] >= trace.start_s[send]).all()


def test_messages_have_named_channels(pools: Pools, engine: str) -> None:
    trace = pools(engine, 2).run(traced, backwards)[0][0]
    found = {what for what in trace.facts.values() if "messages" in what}
    assert found == {"messages of ranks 0, 1", "overtaken messages of ranks 0, 1"}
    assert {f"message(int64, count {10 + tag}, tag {tag})" for tag in range(8)} < set(trace.calls)


def test_parts_and_copies_are_named_after_their_call(pools: Pools, engine: str) -> None:
    assert "exchange_parts(float64)" in pools(engine, 2).run(traced, in_parts)[0][0].calls
    assert "copy(float32, count 4)" in pools(engine, 2).run(traced, copied)[0][0].calls


def copied(comm: Communicator) -> None:
    comm.copy(np.ones(4, np.float32), 0, 1)


LATE_S = 0.05


def late(comm: Communicator) -> None:
    """Rank 1 waits for rank 0, twice at once, then finds what is there."""
    if comm.rank == 0:
        time.sleep(LATE_S)
        for tag in range(3):
            comm.send(np.ones(5), 1, tag)
    else:
        messages = [comm.irecv(np.empty(5), 0, tag) for tag in range(2)]
        for message in messages:
            message.wait()
        comm.recv(np.empty(5), 0, 2)


def test_waits_last_as_long_as_the_program_waited(pools: Pools, engine: str) -> None:
    trace = pools(engine, 2).run(traced, late)[0][0]
    mine = trace.take((trace.kind == Event.WAIT) & (trace.rank == 1))
    lasted_s = np.sort(mine.end_s - mine.start_s)
    assert lasted_s[-1] > 0.5 * LATE_S > lasted_s[:-1].sum()
    order = np.argsort(mine.start_s, kind="stable")
    assert (mine.start_s[order][1:] >= mine.end_s[order][:-1]).all()


def unready(comm: Communicator) -> None:
    """More than fits, to a rank that is not there yet."""
    if comm.rank == 0:
        comm.send(np.ones(1), 1, 1)  # so that rank 1 begins to be late only now
        comm.send(np.ones(LARGE * 4), 1)
    else:
        comm.recv(np.empty(1), 0, 1)
        time.sleep(LATE_S)
        comm.recv(np.empty(LARGE * 4), 0)


def test_a_send_that_finds_no_room_stalls() -> None:
    trace = spawned("shm", 2, lambda comm: traced(comm, unready)[0])[0]
    stalls = trace.take(trace.kind == Event.STALL)
    assert (stalls.rank.tolist(), stalls.peer.tolist()) == ([0], [1])
    awake = trace.take((trace.kind == Event.WAIT) & (trace.nbytes == 8))
    assert stalls.end_s[0] > awake.start_s[0] + LATE_S  # however late a busy machine lets the sender begin


def across_the_edge(comm: Communicator) -> Trace:
    """One message was sent before the recording began, and is taken in it."""
    if comm.rank == 0:
        comm.send(np.ones(1), 1)
    with comm.trace() as recording:
        if comm.rank == 0:
            comm.send(np.ones(2), 1)
        else:
            for count in (1, 2):
                comm.recv(np.empty(count), 0)
    return recording.trace


def test_earlier_messages_do_not_shift_later_ones(pools: Pools, engine: str) -> None:
    trace = pools(engine, 2).run(across_the_edge)[0]
    send, wait = trace.messages()
    assert trace.nbytes[send].tolist() == trace.nbytes[wait].tolist() == [16]
    assert np.sum(trace.kind == Event.WAIT) == 2


def nested(comm: Communicator) -> tuple[int, int]:
    with comm.trace() as outer:
        in_a_circle(comm)
        with comm.trace() as inner:
            in_a_circle(comm)
    return tuple(int(np.sum(r.trace.nbytes == LARGE * 8)) for r in (outer, inner))  # type: ignore[return-value]


def test_recordings_may_lie_in_one_another(pools: Pools, engine: str) -> None:
    outer, inner = pools(engine, 2).run(nested)[0]
    assert outer == 2 * inner > 0


def many(comm: Communicator) -> None:
    for _ in range(200):
        comm.sendrecv(np.ones(1), 1 - comm.rank, np.empty(1), 1 - comm.rank)


def cut_short(comm: Communicator) -> tuple[Trace, Any]:
    return traced(comm, many, most_events=100)


def test_excess_events_are_dropped_and_counted(pools: Pools, engine: str) -> None:
    trace, counted = pools(engine, 2).run(cut_short)[0]
    assert len(trace) == 2 * 100
    assert int(trace.facts["dropped"]) >= 2 * 300
    assert counted[1] == 200 * 8


def test_threads_may_send_at_once() -> None:
    """Each its own tag; the progress thread moves what they posted."""
    from threading import Thread

    def work(comm: Communicator) -> Trace:
        def exchange(tag: int) -> None:
            for _ in range(50):
                message = comm.irecv(np.empty(1000), 1 - comm.rank, tag)
                comm.send(np.ones(1000), 1 - comm.rank, tag)
                message.wait()

        with comm.trace() as recording:
            threads = [Thread(target=exchange, args=(tag,)) for tag in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return recording.trace

    trace = ringtree.spawn(work, 2, timeout_s=60)[0]
    send, wait = trace.messages()
    assert len(send) == 2 * 3 * 50
    assert np.array_equal(trace.call[send], trace.call[wait])
