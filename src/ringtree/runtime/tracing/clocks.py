"""The clocks of several hosts, read beside each other, so that a trace has one time.

Rank 0 asks the first rank of every other host for its time, often, and keeps the exchange with the shortest round trip.
With t0 and t3 the times here of asking and of having the answer, t1 and t2 those there of the question's arrival and of
answering, the clock there is ahead by ((t1 - t0) + (t2 - t3)) / 2, and wrong by at most half of the round trip
(t3 - t0) - (t2 - t1): exactly that, where one direction took all of it. This is NTP's computation (Mills, RFC 5905,
section 8) on the exchange that Cristian would accept (Probabilistic clock synchronization, Distributed Computing 3,
1989). Hosts' clocks run at different paces, so they are read before and after the recording.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.host_clocks import HostClock
from ringtree.runtime.engines.protocols import MessageOperation
from ringtree.runtime.engines.tags import CLOCKS
from ringtree.runtime.types import Dtype

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

MET, NEAR = 10, 1.25
"""A host is asked until so many round trips were within this factor of the shortest one,"""
LONGEST_S, LEAST_ASKED = 0.1, 8
"""but no longer than this where it was asked so often: on busy hosts, or over a network that never repeats itself."""
MOST_DRIFT = 1e-3
"""No clock gains more on another: NTP slews each by 500 parts in a million at most, and quartz is within 100."""
QUARTZ_DRIFT = 1e-4
"""Quartz that nobody slews gains no more on another."""


class ClockReading(NamedTuple):
    """The clock of a host beside that of rank 0's: `at_s` there it was `offset_s` ahead, or up to `error_s` more or
    less."""

    host: int
    at_s: float
    offset_s: float
    error_s: float


@dataclass(frozen=True, slots=True)
class AlignedClock:
    """The clock of a host as a line: `offset_s` ahead at `at_s` of its own time, gaining `drift` a second."""

    at_s: float
    offset_s: float
    drift: float
    error_s: float

    def corrected(self, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Times of that host's clock, as rank 0's host would have them."""
        corrected: NDArray[np.float64] = times_s - self.offset_s - self.drift * (times_s - self.at_s)
        return corrected

    @property
    def kept(self) -> HostClock:
        """The line as the trace keeps it."""
        return HostClock(self.offset_s, self.drift, self.error_s)


def read_clocks(communicator: Communicator) -> list[ClockReading]:
    """The clocks of the other hosts, on rank 0; nothing on the other ranks. All ranks call it, and nobody waits where
    all are on one host. Cost: some ten round trips for each host, where they are alike; else up to 0.1 s, or 8 round
    trips. PeerDied, TimedOut as a message's."""
    hosts, first = communicator.hosts, dict[int, int]()
    for rank, host in enumerate(hosts):
        first.setdefault(host, rank)
    here = first.pop(hosts[0])
    if communicator.rank == here:
        return [_asked(communicator, rank, host) for host, rank in first.items()]
    if communicator.rank in first.values():
        _answer(communicator, here)
    return []


def aligned(before: Iterable[ClockReading], after: Iterable[ClockReading]) -> Mapping[int, AlignedClock]:
    """The clock of each host that was read before the recording and after it, by the host's number."""
    later = {reading.host: reading for reading in after}
    return {first.host: _line(first, later[first.host]) for first in before if first.host in later}


def held_until(
    until_s: Mapping[int, float], before: Iterable[ClockReading], after: Iterable[ClockReading]
) -> Mapping[int, AlignedClock]:
    """The clock of each host that was read, until these times of its own. Where the later reading tells less of its
    drift than that it is quartz, the first one counts, and its error grows with time."""
    first = {reading.host: reading for reading in before}
    later = {reading.host: reading for reading in after}
    found = {}
    for host in sorted({*first, *later}):
        begin, end = first.get(host), later.get(host)
        reading = begin or end
        assert reading is not None
        drifted_s = QUARTZ_DRIFT * abs(until_s.get(host, reading.at_s) - reading.at_s)
        if begin is not None and end is not None and end.error_s < drifted_s:
            found[host] = _line(begin, end)
        else:
            found[host] = AlignedClock(reading.at_s, reading.offset_s, 0.0, reading.error_s + drifted_s)
    return found


def _line(before: ClockReading, after: ClockReading) -> AlignedClock:
    """The line through both readings, each narrowed by what the other leaves possible."""
    first, last = _narrowed(before, after), _narrowed(after, before)
    lasted_s = after.at_s - before.at_s
    drift = (last[0] - first[0]) / lasted_s if lasted_s > 0 else 0.0
    return AlignedClock(before.at_s, first[0], drift, max(first[1], last[1]))


def _narrowed(reading: ClockReading, other: ClockReading) -> tuple[float, float]:
    """Offset and error of a reading: it and the other one differ by no more than drift explains. Where they do, a clock
    was set, and the reading stays as it is."""
    reach_s = other.error_s + MOST_DRIFT * abs(other.at_s - reading.at_s)
    low_s = max(reading.offset_s - reading.error_s, other.offset_s - reach_s)
    high_s = min(reading.offset_s + reading.error_s, other.offset_s + reach_s)
    if low_s > high_s:
        return reading.offset_s, reading.error_s
    return (low_s + high_s) / 2, (high_s - low_s) / 2


def _asked(communicator: Communicator, peer: int, host: int) -> ClockReading:
    """Asks that rank for its time, the last time with 0 in place of 1."""
    question, answer = np.ones(1), np.zeros(2)
    operations = [_operation(True, peer, question), _operation(False, peer, answer)]
    errors_s: list[float] = []
    best: ClockReading | None = None
    begin_s = time.monotonic()
    while question[0]:
        question[0] = not _is_enough(errors_s, time.monotonic() - begin_s)
        asked_s = time.monotonic()
        communicator._exchange(operations)
        answered_s = time.monotonic()
        if not errors_s:
            begin_s = answered_s  # the first answer comes when that rank is here, too
        came_s, left_s = answer.tolist()
        errors_s.append(max((answered_s - asked_s) - (left_s - came_s), 0.0) / 2)
        if best is None or errors_s[-1] < best.error_s:
            best = ClockReading(host, came_s, ((came_s - asked_s) + (left_s - answered_s)) / 2, errors_s[-1])
    assert best is not None
    return best


def _is_enough(errors_s: Sequence[float], lasted_s: float) -> bool:
    """Whether the next exchange is the last one."""
    if len(errors_s) < LEAST_ASKED - 1:
        return False
    return lasted_s > LONGEST_S or sum(error_s <= NEAR * min(errors_s) for error_s in errors_s) >= MET


def _answer(communicator: Communicator, peer: int) -> None:
    """Answers with the time until rank 0 has asked for the last time."""
    question, answer = np.ones(1), np.zeros(2)
    receive, send = [_operation(False, peer, question)], [_operation(True, peer, answer)]
    while question[0]:
        communicator._exchange(receive)
        answer[0] = time.monotonic()
        answer[1] = time.monotonic()
        communicator._exchange(send)


def _operation(sends: bool, peer: int, x: NDArray[np.float64]) -> MessageOperation:
    """A message of doubles with a tag that no receive of the program's takes."""
    return sends, peer, CLOCKS, x.ctypes.data, x.nbytes, int(Dtype.FLOAT64), False
