"""The clocks of a job's hosts, read by the launcher through their agents, before its ranks and after them.

Ranks need not meet for that, so a trace has one time also where some have failed. Each host is read beside the
launcher's clock; the difference of two such readings is the clock of one host beside that of another, and their errors
add up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ringtree.runtime.launch.hosts.link import AgentLink
from ringtree.runtime.tracing.clocks import (
    MOST_DRIFT,
    AlignedClock,
    ClockReading,
    RoundTrip,
    aligned,
    closest_reading,
)


class Unanswered(Exception):
    """The end of a reading whose agent is gone."""


class AgentClocks:
    """Both readings of each host. `round_trip` asks an agent once; None where it is gone."""

    def __init__(self, round_trip: Callable[[AgentLink], RoundTrip | None]) -> None:
        self._round_trip = round_trip
        self._before: dict[tuple[int, ...], ClockReading] = {}  # by the ranks of the host
        self._after: dict[tuple[int, ...], ClockReading] = {}
        self._began_s = 0.0

    def read_before(self, links: Iterable[AgentLink]) -> None:
        """Reads all clocks, before the ranks begin."""
        self._before, self._began_s = self._read(links), time.monotonic()

    def read_after(self, links: Iterable[AgentLink]) -> None:
        """Reads the clocks again of the hosts that are still there."""
        self._after = self._read(links)

    def of(self, hosts: Sequence[int]) -> Mapping[int, AlignedClock]:
        """The clocks of all hosts but rank 0's, beside it. `hosts`: the number of each rank's host."""
        before, after = (self._beside_rank_0s(hosts, read) for read in (self._before, self._after))
        read_twice = {reading.host for reading in after}
        lasted_s = time.monotonic() - self._began_s
        return aligned(before, [*after, *(_later(r, lasted_s) for r in before if r.host not in read_twice)])

    def _beside_rank_0s(self, hosts: Sequence[int], read: Mapping[tuple[int, ...], ClockReading]) -> list[ClockReading]:
        by_number = {hosts[ranks[0]]: reading for ranks, reading in [*read.items()][::-1]}
        zero = by_number.pop(hosts[0], None)
        return [] if zero is None else [_beside(reading, zero, host) for host, reading in by_number.items()]

    def _read(self, links: Iterable[AgentLink]) -> dict[tuple[int, ...], ClockReading]:
        found: dict[tuple[int, ...], ClockReading] = {}
        for link in links:
            if link.host.local:  # the launcher's own clock
                now_s = time.monotonic()
                found[tuple(link.host.ranks)] = ClockReading(0, now_s, 0.0, 0.0)
                continue
            try:
                found[tuple(link.host.ranks)] = closest_reading(0, partial(self._asked, link))
            except Unanswered:
                continue
        return found

    def _asked(self, link: AgentLink, last: bool) -> RoundTrip:
        found = self._round_trip(link)
        if found is None:
            raise Unanswered
        return found


def _beside(reading: ClockReading, zero: ClockReading, host: int) -> ClockReading:
    """A host's clock beside that of rank 0's host, whose own reading was a moment earlier or later."""
    apart_s = abs((reading.at_s - reading.offset_s) - (zero.at_s - zero.offset_s))
    error_s = reading.error_s + zero.error_s + MOST_DRIFT * apart_s
    return ClockReading(host, reading.at_s, reading.offset_s - zero.offset_s, error_s)


def _later(reading: ClockReading, lasted_s: float) -> ClockReading:
    """What is known at the end of a clock whose host is not there any more."""
    error_s = reading.error_s + MOST_DRIFT * lasted_s
    return ClockReading(reading.host, reading.at_s + lasted_s, reading.offset_s, error_s)
