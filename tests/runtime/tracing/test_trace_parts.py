"""Parts of ranks become one trace: ranks, channels and calls alike for all, and causes before what they caused."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.ir.trace import Event
from ringtree.runtime.engines.protocols import Recorded
from ringtree.runtime.tracing.clocks import AlignedClock
from ringtree.runtime.tracing.parts import RankRecording, merge

US = 1e-6
EventRow = tuple[Event, float, float, int]
"""Kind, from and to in µs, peer."""


def part(
    rank: int, *events: EventRow, place: str = "world", members: tuple[int, ...] = (0, 1), dropped: int = 0
) -> RankRecording:
    kind, start, end, peer = (np.array(column) for column in zip(*events, strict=True)) if events else [np.empty(0)] * 4
    n = len(events)
    columns = kind.astype(np.int32), 100 + start * US, 100 + end * US, np.full(n, 8), peer.astype(np.int32)
    recorded = Recorded(*columns, np.zeros(n, np.int32), np.zeros(n, np.int32), [("barrier()", 7)], dropped)
    return RankRecording(place, rank, members, recorded, {7: "ring"})


def sends(at: float) -> EventRow:
    return Event.SEND, at, at, 1


def waits(start: float, end: float) -> EventRow:
    return Event.WAIT, start, end, 0


def test_groups_are_channels_and_members_are_ranks_of_the_trace() -> None:
    inner = part(2, (Event.SEND, 1, 1, 0), place="inner", members=(1, 2), dropped=3)
    outer = part(0, (Event.REDUCE, 0, 1, -1), members=(0, 1, 2), dropped=4)
    trace = merge(3, [inner, outer], "world", {"source": "measured"})
    assert (trace.rank.tolist(), trace.channel.tolist(), trace.peer.tolist()) == ([0, 2], [0, 1], [-1, 1])
    assert trace.calls == ("barrier() by ring",)
    assert trace.facts == {"source": "measured", "channel 1": "ranks 1, 2", "dropped": "7"}
    assert trace.start_s.tolist() == [0.0, pytest.approx(US)]


def test_nothing_becomes_an_empty_trace() -> None:
    assert (len(merge(2, [], "world", {})), len(merge(2, [part(0), part(1)], "world", {}))) == (0, 0)


@pytest.mark.parametrize(
    ("sender", "receiver", "sent", "came"),
    [
        ([sends(3)], [waits(0, 5)], [3], [5]),  # as it should be
        ([(Event.COPY, 0, 1, -1), (Event.COPY, 9, 9, -1), sends(9)], [waits(0, 5)], [5], [5]),  # published too late
        ([(Event.COPY, 0, 5.25, -1), sends(9)], [waits(0, 5)], [5.25], [5.25]),  # so late that clocks must differ
        ([(Event.COPY, 0, 8, -1), sends(9)], [waits(0, 5)], [8], [5]),  # nobody knows why: left alone
    ],
)
def test_causes_come_first(
    sender: list[EventRow], receiver: list[EventRow], sent: list[float], came: list[float]
) -> None:
    after = (Event.REDUCE, receiver[-1][2], receiver[-1][2] + 1, -1)
    trace = merge(2, [part(0, *sender), part(1, *receiver, after)], "world", {})
    assert trace.start_s[trace.kind == Event.SEND].tolist() == pytest.approx([at * US for at in sent])
    assert trace.end_s[trace.kind == Event.WAIT].tolist() == pytest.approx([at * US for at in came])
    for rank in range(2):
        mine = trace.take(trace.rank == rank)
        assert (mine.start_s[1:] >= mine.end_s[:-1]).all()
        assert (mine.end_s >= mine.start_s).all()


def test_a_clock_s_error_moves_all_that_follows_on_that_host() -> None:
    """Ranks 1 and 2 share a host whose clock is behind by 20 us, of 50 that are possible."""
    members = (0, 1, 2)
    first = part(0, (Event.COPY, 0, 30, -1), sends(30), members=members)
    second = part(1, waits(0, 10), (Event.COPY, 10, 12, -1), (Event.SEND, 12, 12, 2), members=members)
    third = part(2, (Event.WAIT, 0, 13, 1), (Event.COPY, 13, 14, -1), members=members)
    clock = AlignedClock(100.0, 0.0, 0.0, 50 * US)
    trace = merge(3, [first, second, third], "world", {}, hosts=(0, 1, 1), clocks={1: clock})
    send, wait = trace.messages()
    assert trace.end_s[wait].tolist() == pytest.approx([30 * US, 30 * US])
    assert (trace.end_s[wait] >= trace.start_s[send]).all()
