"""The hosts' clocks by the launcher's signs of life: each asks an agent for its time.

Ranks read them more exactly when they meet (runtime/tracing/clocks.py). These readings go on to the end of the job,
when no rank may be left to ask.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from ringtree.runtime.launch.hosts.messages import Message
from ringtree.runtime.tracing.clocks import ClockReading

LAST = 4
"""The number of last exchanges, of which the shortest counts."""

Host = TypeVar("Host")


class _Exchange(NamedTuple):
    """An agent's time `there_s`, `ahead_s` of the launcher's, or up to `error_s` more or less."""

    there_s: float
    ahead_s: float
    error_s: float


class AgentClocks(Generic[Host]):
    """The exchanges with each host's agent."""

    def __init__(self) -> None:
        self._exchanges: dict[Host, list[_Exchange]] = defaultdict(list)

    @staticmethod
    def question() -> Message:
        """A question for an agent, which answers at once with its time beside `asked_s`."""
        return {"do": "clock", "asked_s": time.monotonic()}

    def note(self, host: Host, asked_s: float, there_s: float) -> None:
        """Notes an answer that has just come."""
        answered_s = time.monotonic()
        half_s = (answered_s - asked_s) / 2
        kept = [*self._exchanges[host], _Exchange(there_s, there_s - asked_s - half_s, half_s)]
        self._exchanges[host] = kept[-LAST:]

    def readings(self, numbers: Mapping[Host, int]) -> list[ClockReading]:
        """The clocks of the hosts with these numbers beside that of host 0, at their last exchanges."""
        last = {numbers[host]: min(kept, key=lambda e: e.error_s) for host, kept in self._exchanges.items()}
        if 0 not in last:
            return []
        first = last.pop(0)
        return [
            ClockReading(host, there_s, ahead_s - first.ahead_s, error_s + first.error_s)
            for host, (there_s, ahead_s, error_s) in sorted(last.items())
        ]
