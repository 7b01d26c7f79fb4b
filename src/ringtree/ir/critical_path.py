"""The critical path of a trace: the chain of work and messages that the last event waited for, back to the start.
To shorten the whole, a step of the path must be shortened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.own_work import uncovered
from ringtree.ir.trace import Event, Trace

Key = TypeVar("Key")
What = Literal["copy", "reduce", "message", "wait", "stall", "idle", "compute"]
_WHAT: dict[int, What] = {
    Event.COPY: "copy",
    Event.REDUCE: "reduce",
    Event.WAIT: "wait",
    Event.STALL: "stall",
    Event.COMPUTE: "compute",
}


class PathStep(NamedTuple):
    """A piece of the path. A message's rank is its sender; a message without duration is no step, but the path
    continues at its sender. Idle (event -1): nothing is recorded of the rank, before its start or between two events. A
    wait is the receiver's own share, after the message's arrival."""

    event: int
    rank: int
    what: What
    start_s: float
    end_s: float


def critical_path(trace: Trace) -> list[PathStep]:
    """The path in the order of time, without a gap from the trace's first start to its last end. Backwards, a WAIT with
    a late message leads over the message to the sender; every other event to the rank's previous event. O(n log n)."""
    if not trace.makespan_s > 0:
        return []
    cut, event = uncovered(trace)
    path = list(_back(cut))[::-1]
    return path if cut is trace else [s._replace(event=int(event[s.event])) if s.event >= 0 else s for s in path]


def _back(trace: Trace) -> Iterator[PathStep]:
    rank, call, start, end = (c.tolist() for c in (trace.rank, trace.call, trace.start_s, trace.end_s))
    is_send = trace.kind == Event.SEND
    sent, taken = trace.messages()
    send_of = dict(zip(taken.tolist(), sent.tolist(), strict=True))
    before = _Before(trace)
    at = int(np.lexsort((is_send, -trace.end_s))[0])  # of the last events to end, preferably not a message
    r, c, t, first = rank[at], call[at], end[at], float(trace.start_s.min())
    if is_send[at] and start[at] < t:
        yield PathStep(at, r, "message", start[at], t)
        t = start[at]
    while t > first:
        at = before(r, c, t)
        if at < 0:
            yield PathStep(-1, r, "idle", first, t)
            return
        c = call[at]
        if end[at] < t:
            yield PathStep(-1, r, "idle", end[at], t)
            t = end[at]
        send = send_of.pop(at, -1)  # once: equal times could otherwise form a cycle
        arrived = min(end[send], t) if send >= 0 else start[at]
        if arrived <= start[at] or start[send] > arrived:
            yield PathStep(at, r, _WHAT[int(trace.kind[at])], start[at], t)
            t = start[at]
            continue
        if arrived < t:
            yield PathStep(at, r, "wait", arrived, t)
        if start[send] < arrived:
            yield PathStep(send, rank[send], "message", start[send], arrived)
        r, c, t = rank[send], call[send], start[send]


class _Before:
    """Finds a rank's event before a moment. Calls may overlap in time on a rank, so the same call's events come first,
    unless another call's event ended later. Messages under way and events without duration are skipped."""

    def __init__(self, trace: Trace) -> None:
        work = np.flatnonzero((trace.kind != Event.SEND) & (trace.end_s > trace.start_s))
        self._end_s = trace.end_s
        self._of_call = _Sorted(trace, work, trace.rank[work].astype(np.int64) << 32 | trace.call[work])
        self._of_rank = _Sorted(trace, work, trace.rank[work].astype(np.int64))

    def __call__(self, rank: int, call: int, moment_s: float) -> int:
        found = self._of_call.before(rank << 32 | call, moment_s)
        if found >= 0 and self._end_s[found] >= moment_s:
            return found
        other = self._of_rank.before(rank, moment_s)
        return other if found < 0 or self._end_s[other] > self._end_s[found] else found


class _Sorted:
    """Events by key and start."""

    def __init__(self, trace: Trace, events: NDArray[np.intp], key: NDArray[np.int64]) -> None:
        order = np.lexsort((trace.start_s[events], key))
        self._events, self._start_s = events[order], trace.start_s[events][order]
        keys, first = np.unique(key[order], return_index=True)
        ends = np.append(first, len(order))[1:]
        self._span = {k: (a, b) for k, a, b in zip(keys.tolist(), first.tolist(), ends.tolist(), strict=True)}

    def before(self, key: int, moment_s: float) -> int:
        """The last event of that key that starts before then; -1 if there is none."""
        low, high = self._span.get(key, (0, 0))
        place = low + int(np.searchsorted(self._start_s[low:high], moment_s))
        return int(self._events[place - 1]) if place > low else -1


def seconds_by_what(path: Iterable[PathStep]) -> dict[What, float]:
    """Seconds of the path that each kind of step takes, the most first."""
    return _seconds((step.what, step) for step in path)


def seconds_by_rank(path: Iterable[PathStep]) -> dict[int, float]:
    """Seconds of the path that lie on each rank, the most first."""
    return _seconds((step.rank, step) for step in path)


def _seconds(steps: Iterable[tuple[Key, PathStep]]) -> dict[Key, float]:
    total: dict[Key, float] = {}
    for key, step in steps:
        total[key] = total.get(key, 0.0) + step.end_s - step.start_s
    return dict(sorted(total.items(), key=lambda item: -item[1]))
