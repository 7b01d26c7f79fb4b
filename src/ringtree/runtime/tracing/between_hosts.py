"""The messages of a recording that crossed from one host to another: sent, arrived."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.host_clocks import EARLY
from ringtree.ir.trace import Event, Trace
from ringtree.ir.units import count, duration
from ringtree.runtime.engines.protocols import ARRIVAL, Recorded

Times = NDArray[np.float64]


def with_arrivals(recorded: Recorded) -> tuple[Recorded, Times]:
    """The events without arrivals, which are no events of a rank, and for each the arrival of the message that it
    waited for; NaN where none is known."""
    at = np.flatnonzero(recorded.kind == ARRIVAL)
    arrived_s = np.full(len(recorded.kind), np.nan)
    at = at[at + 1 < len(recorded.kind)]
    at = at[(recorded.kind[at + 1] == Event.WAIT) & (recorded.peer[at + 1] == recorded.peer[at])]
    arrived_s[at + 1] = recorded.start_s[at]
    kept = recorded.kind != ARRIVAL
    columns: list[Any] = [column[kept] for column in recorded[:-2]]
    return Recorded._make([*columns, recorded.calls, recorded.dropped]), arrived_s[kept]


def early_arrivals(trace: Trace, host_of: NDArray[np.int64], arrived_s: Times) -> dict[str, str]:
    """A fact with the number of messages between hosts that seem to arrive before they were sent, and by how much at
    most; none where there are none. `arrived_s`: of the events, as `with_arrivals` returns them."""
    send, wait = _crossing(trace, host_of)
    late_s = trace.start_s[send] - _arrived_s(trace, wait, arrived_s)
    early = late_s > 0
    if not early.any():
        return {}
    return {EARLY: f"{count(int(early.sum()), 'message')} of {len(late_s)}, by up to {duration(float(late_s.max()))}"}


def last_until_arrival(trace: Trace, host_of: NDArray[np.int64], arrived_s: Times) -> None:
    """Extends the SEND of each message to another host to its arrival there, or where that is unknown until it was
    taken: on its own host it ends when the network has it."""
    send, wait = _crossing(trace, host_of)
    trace.end_s[send] = np.maximum(trace.start_s[send], _arrived_s(trace, wait, arrived_s))


def _arrived_s(trace: Trace, wait: NDArray[np.intp], arrived_s: Times) -> Times:
    """The arrivals of the messages of these WAITs, none of them after it was taken."""
    return np.fmin(arrived_s[wait], trace.end_s[wait])


def _crossing(trace: Trace, host_of: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The messages between hosts as (SEND, WAIT)."""
    send, wait = trace.messages()
    away = host_of[trace.rank[send]] != host_of[trace.peer[send]]
    return send[away], wait[away]
