"""The hosts of a trace's ranks, and how their clocks were aligned: facts of the trace, as every reader keeps them.

A fact "hosts" has the number of each rank's host; a fact "clock of host 1" has that host's `HostClock`. A trace without
them is of one host, as all were before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.trace import Trace

HOSTS = "hosts"
EARLY = "early arrivals"
"""The fact of messages between hosts that seemed to arrive before they were sent."""
_CLOCK = "clock of host "
_NUMBER = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_WRITTEN = re.compile(rf"{_NUMBER} s ahead, gaining {_NUMBER} s/s, known to {_NUMBER} s")


@dataclass(frozen=True, slots=True)
class HostClock:
    """A host's clock beside that of rank 0's host: `offset_s` ahead of it when the recording began, gaining `drift`
    seconds a second. The trace's times are corrected by both; they are wrong by `error_s` at most, at either end of the
    recording."""

    offset_s: float
    drift: float
    error_s: float

    def __str__(self) -> str:
        return f"{self.offset_s!r} s ahead, gaining {self.drift!r} s/s, known to {self.error_s!r} s"


def clock_facts(clocks: Mapping[int, HostClock]) -> dict[str, str]:
    """The facts of a trace that keep the clocks of hosts."""
    return {f"{_CLOCK}{host}": str(clock) for host, clock in clocks.items()}


def host_clocks(trace: Trace) -> dict[int, HostClock]:
    """The clock of every host but rank 0's, by its number; empty for one host, a simulation, or clocks never aligned.
    What is no clock's fact is passed over."""
    found: dict[int, HostClock] = {}
    for key, fact in trace.facts.items():
        number, written = key.removeprefix(_CLOCK), _WRITTEN.fullmatch(fact)
        if key.startswith(_CLOCK) and number.isdecimal() and written:
            found[int(number)] = HostClock(*map(float, written.groups()))
    return found


def hosts_fact(hosts: Sequence[int]) -> dict[str, str]:
    """The fact of a trace that keeps the host of each rank; none where all are on one."""
    return {HOSTS: ",".join(map(str, hosts))} if len(set(hosts)) > 1 else {}


def hosts_of(trace: Trace) -> NDArray[np.int64]:
    """[ranks] the number of each rank's host: 0 for all where the trace does not say, or says it of other ranks."""
    words = trace.facts.get(HOSTS, "").split(",")
    if len(words) != trace.ranks or not all(word.isdecimal() and len(word) < 10 for word in words):
        return np.zeros(trace.ranks, np.int64)
    return np.array(words, np.int64)
