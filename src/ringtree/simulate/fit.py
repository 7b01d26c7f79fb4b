"""A machine's constants from traces measured on it, as a topology.

For ranks that share memory. The ranks move all bytes themselves: links take time but no bytes count on them, and
copies and reductions cost a start and their bytes. All constants are trimmed means: the scheduler's effect on some
events does not change them, and copies of two sorts count by their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.host_clocks import hosts_of
from ringtree.ir.trace import Event, Trace
from ringtree.topology import Topology, shapes

Floats = NDArray[np.float64]
UNBELIEVABLE_BPS = 1e12
"""The fastest credible rate of a copy, bytes a second."""
LEAST_S = 1e-10
"""The least credible start, seconds."""
TAIL = 0.1
"""The share of values at either end that a mean leaves out."""


def fit(traces: Sequence[Trace], ranks: int | None = None) -> Topology:
    """The fitted topology: a link from each rank to each of `ranks` (default: the most of a trace), and the costs of
    work.

    `latency_s`: from a message's start to its receipt by a rank that waited for it. `message_s`: half the time of a
    message that had already arrived, since a simulation charges both ends and a trace shows one. `step_s`, `copy_Bps`
    and `reduce_Bps`: the least relative errors, where a reduction has as many sources as its rank waited for since its
    last copy or reduction, and its own. The cost of a byte depends on the size, through the caches: measure at about
    the sizes to be predicted. ValueError: if no trace has a message, or one is of several hosts.
    """
    for trace in traces:
        if len(hosts := np.unique(hosts_of(trace))) > 1:
            raise ValueError(
                f"the trace is of ranks on {len(hosts)} hosts, and constants are fitted for ranks that share memory; "
                "expected `ringtree simulate --hosts`"
            )
    parts = [_messages(trace) for trace in traces]
    late_s, had_s = (np.concatenate([part[k] for part in parts] or [np.zeros(0)]) for k in (0, 1))
    if not len(late_s):
        raise ValueError(
            "the traces have no message, which the machine's constants are fitted to; expected measured ones"
        )
    waited = late_s <= 0
    hop_s = _typical(had_s[waited]) if waited.any() else 0.0
    there = late_s >= hop_s
    message_s = _typical((had_s - late_s)[there]) / 2 if there.any() else 0.0
    step_s, copy_Bps, reduce_Bps = _work(traces)
    most = max(trace.ranks for trace in traces)
    return shapes.direct(
        most if ranks is None else ranks,
        latency_s=max(hop_s - 2 * message_s, 0.0),
        bandwidth_Bps=np.inf,
        message_s=message_s,
        step_s=step_s,
        copy_Bps=copy_Bps,
        reduce_Bps=reduce_Bps,
    )


def _typical(values: Floats) -> float:
    left_out = int(len(values) * TAIL)
    return float(np.sort(values)[left_out : len(values) - left_out].mean())


def _messages(trace: Trace) -> tuple[Floats, Floats]:
    """Seconds from each message's start to the receiver's wait (below 0: the receiver waited first), and to its
    receipt."""
    send, wait = trace.messages()
    return trace.start_s[wait] - trace.start_s[send], trace.end_s[wait] - trace.start_s[send]


def _work(traces: Sequence[Trace]) -> tuple[float, float, float]:
    """step_s, copy_Bps and reduce_Bps."""
    rows, took_s = list[tuple[float, float, float]](), list[float]()
    for trace in traces:
        sources = _read(trace)
        lasts = trace.end_s - trace.start_s
        for kind in (Event.COPY, Event.REDUCE):
            mine = np.flatnonzero((trace.kind == kind) & (lasts > trace.nbytes / UNBELIEVABLE_BPS))
            times = np.ones(len(mine), np.int64) if kind == Event.COPY else sources[mine]
            for nbytes in np.unique(times * trace.nbytes[mine]):
                rows.append((1.0, nbytes * (kind == Event.COPY), nbytes * (kind == Event.REDUCE)))
                took_s.append(_typical(lasts[mine][times * trace.nbytes[mine] == nbytes]))
    if not rows:
        return 0.0, np.inf, np.inf
    step_s, copy_s, reduce_s = _least(np.array(rows), np.array(took_s))
    step_s = step_s if step_s >= LEAST_S else 0.0
    return step_s, 1 / copy_s if copy_s else np.inf, 1 / reduce_s if reduce_s else np.inf


def _read(trace: Trace) -> NDArray[np.int64]:
    """The number of messages that each event's rank received since its last copy or reduction, at least 1."""
    order = np.lexsort((trace.start_s, trace.rank))
    kind = trace.kind[order]
    taken = np.cumsum(kind == Event.WAIT)
    moves = np.flatnonzero((kind == Event.COPY) | (kind == Event.REDUCE))
    count = np.ones(len(trace), np.int64)
    count[order[moves]] = np.maximum(np.diff(taken[moves], prepend=0), 1)
    return count


def _least(rows: Floats, took_s: Floats) -> tuple[float, float, float]:
    """The factors of the columns, none below 0, with the least sum of squared relative errors."""
    scaled = rows / took_s[:, None]
    used = [k for k in range(rows.shape[1]) if rows[:, k].any()]
    while True:
        found = np.linalg.lstsq(scaled[:, used], np.ones(len(rows)), rcond=None)[0]
        if found.min() >= 0 or len(used) == 1:
            break
        used.pop(int(found.argmin()))
    factors = np.zeros(rows.shape[1])
    factors[used] = np.maximum(found, 0)
    return float(factors[0]), float(factors[1]), float(factors[2])
