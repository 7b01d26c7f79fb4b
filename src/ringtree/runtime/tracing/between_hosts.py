"""The messages of a recording that crossed from one host to another: sent, arrived."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.host_clocks import EARLY
from ringtree.ir.trace import Trace
from ringtree.ir.units import count, duration


def early_arrivals(trace: Trace, host_of: NDArray[np.int64]) -> dict[str, str]:
    """A fact with the number of messages between hosts that seem to arrive before they were sent, and by how much at
    most; none where there are none."""
    send, wait = trace.messages()
    late_s = (trace.start_s[send] - trace.end_s[wait])[_crosses(trace, send, host_of)]
    early = late_s > 0
    if not early.any():
        return {}
    return {EARLY: f"{count(int(early.sum()), 'message')} of {len(late_s)}, by up to {duration(float(late_s.max()))}"}


def arrive_when_taken(trace: Trace, host_of: NDArray[np.int64]) -> None:
    """Extends the SEND of each message to another host to its arrival there, at the latest when it is taken: on its own
    host it ends when the network has it. A message for which no receiver waited may have arrived earlier."""
    send, wait = trace.messages()
    crosses = _crosses(trace, send, host_of)
    send, wait = send[crosses], wait[crosses]
    trace.end_s[send] = np.maximum(trace.start_s[send], trace.end_s[wait])


def _crosses(trace: Trace, send: NDArray[np.intp], host_of: NDArray[np.int64]) -> NDArray[np.bool_]:
    crosses: NDArray[np.bool_] = host_of[trace.rank[send]] != host_of[trace.peer[send]]
    return crosses
