"""The links between hosts in a trace: the messages from one host to another, and how long they were under way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.host_clocks import hosts_of
from ringtree.ir.trace import Event, Trace


class HostLink(NamedTuple):
    """All messages from one host to another. `busy_s`: seconds in which one at least was under way; `median_s`: from
    sending to arrival of those that both ends recorded. A measured message that nobody waited for counts until it was
    taken."""

    source: int
    target: int
    messages: int
    nbytes: int
    busy_s: float
    median_s: float

    @property
    def rate_Bps(self) -> float:
        """Bytes a second while messages were under way; 0 where none took time."""
        return self.nbytes / self.busy_s if self.busy_s > 0 else 0.0


def crossing(trace: Trace) -> NDArray[np.bool_]:
    """[events] whether it is a SEND to another host."""
    hosts = hosts_of(trace)
    away = np.zeros(len(trace), np.bool_)
    sends = np.flatnonzero(trace.kind == Event.SEND)
    away[sends] = hosts[trace.rank[sends]] != hosts[trace.peer[sends]]
    return away


def host_links(trace: Trace) -> list[HostLink]:
    """The links that carried messages, by source and target. O(n log n) in the events."""
    hosts, away = hosts_of(trace), np.flatnonzero(crossing(trace))
    source, target = hosts[trace.rank[away]], hosts[trace.peer[away]]
    paired = np.isin(away, trace.messages()[0])
    found = []
    for a, b in np.unique(np.stack([source, target], axis=1), axis=0).tolist():
        here = (source == a) & (target == b)
        sends, both = away[here], away[here & paired]
        lasted_s = trace.end_s[both] - trace.start_s[both]
        busy_s = _covered_s(trace.start_s[both], trace.end_s[both])
        median_s = float(np.median(lasted_s)) if len(both) else 0.0
        found.append(HostLink(a, b, len(sends), int(trace.nbytes[sends].sum()), busy_s, median_s))
    return found


def _covered_s(start_s: NDArray[np.float64], end_s: NDArray[np.float64]) -> float:
    """The length of the union of intervals."""
    order = np.argsort(start_s, kind="stable")
    start_s, reach_s = start_s[order], np.maximum.accumulate(end_s[order])
    before_s = np.concatenate([[-np.inf], reach_s[:-1]])
    return float(np.maximum(reach_s - np.maximum(start_s, before_s), 0.0).sum())
