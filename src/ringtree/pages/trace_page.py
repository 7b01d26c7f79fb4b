"""Traces as a page: a timeline per rank, one trace or several on one axis of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.draw.text.comparison import all_begun_seconds
from ringtree.ir.critical_path import PathStep, critical_path
from ringtree.ir.host_clocks import host_clocks, hosts_of
from ringtree.ir.host_links import host_links
from ringtree.ir.own_work import uncovered
from ringtree.ir.trace import COLUMNS, Event, Trace
from ringtree.pages import assemble, encode

MOST_EVENTS = 3_000_000
"""The most events that a browser can hold; beyond it the page is refused."""

STEPS = ("copy", "reduce", "message", "wait", "stall", "idle", "compute")
"""The kinds of a step of the critical path, in the order in which the page numbers them."""


def trace_page(traces: Sequence[Trace], title: str = "") -> str:
    """The page of one trace, or of several one above the other, each from its first event on. Their facts say what
    they are: "source" measured or simulated, "name", "machine", "topology", and how many events were "dropped"."""
    if not traces:
        raise ValueError("no trace to show: expected at least one")
    return assemble(title or _title(traces[0]), ["trace"], {"trace": trace_data(traces)})


def _title(trace: Trace) -> str:
    more = f" and {len(trace.calls) - 1} more" if len(trace.calls) > 1 else ""
    return trace.facts.get("name") or (trace.calls[0] + more if any(trace.calls[:1]) else "trace")


def trace_data(traces: Sequence[Trace]) -> dict[str, Any]:
    """The input of the trace's view, as JSON. ValueError: if there are more than MOST_EVENTS events, or no rank."""
    if not all(trace.ranks for trace in traces):
        raise ValueError("a trace of no ranks: expected at least one")
    events = sum(map(len, traces))
    if events > MOST_EVENTS:
        raise ValueError(
            f"too large for a page: {events} events; expected at most {MOST_EVENTS}: trace fewer calls or ranks"
        )
    return {"traces": [_trace(t) for t in traces]}


def _trace(given: Trace) -> dict[str, Any]:
    order = np.lexsort((given.rank, given.end_s, given.start_s))
    trace = given.take(order)
    zero_s = float(trace.start_s[0]) if len(trace) else 0.0
    columns = {name: getattr(trace, name) for name in COLUMNS}
    columns |= {name: columns[name] - zero_s for name in ("start_s", "end_s")}
    sends, waits = trace.messages()
    other = np.full(len(trace), -1, dtype=np.int32)
    other[sends], other[waits] = waits, sends
    return {
        "ranks": trace.ranks,
        "count": len(trace),
        "span_s": trace.makespan_s,
        "all_begun_s": all_begun_seconds(trace),
        "messages": len(sends),
        "calls": list(trace.calls),
        "facts": dict(trace.facts),
        "hosts": hosts_of(trace).tolist(),
        "clock_error_s": max((clock.error_s for clock in host_clocks(trace).values()), default=None),
        "links": [link._asdict() | {"rate_Bps": link.rate_Bps} for link in host_links(trace)],
        "events": {name: encode(column) for name, column in (columns | {"other": other}).items()},
        "per_rank": {name: encode(column) for name, column in per_rank(trace).items()},
        "critical": _critical(critical_path(trace), zero_s),
    }


def per_rank(trace: Trace) -> Mapping[str, NDArray[Any]]:
    """[ranks] columns: seconds by what the rank did (`idle_s`: none of it, of the makespan), bytes sent and received.

    Where a rank does several calls at once, their seconds add up; it is idle while none of them goes on, at least 0.
    `compute_s`: the program's own recorded work, without the time of other events.
    """
    lasted_s = uncovered(trace)[0].kind_seconds()
    kinds = (Event.COPY, Event.REDUCE, Event.WAIT, Event.STALL, Event.COMPUTE)
    seconds: dict[str, NDArray[Any]] = {f"{kind.name.lower()}_s": lasted_s[:, kind] for kind in kinds}
    seconds["idle_s"] = np.maximum(0.0, trace.makespan_s - np.sum(list(seconds.values()), axis=0))
    sent, received = trace.traffic_nbytes()
    return seconds | {"sent_nbytes": sent, "received_nbytes": received}


def _critical(steps: Sequence[PathStep], zero_s: float) -> dict[str, Any]:
    what = np.array([STEPS.index(step.what) for step in steps], dtype=np.int32)
    columns = {
        name: np.array([getattr(step, name) for step in steps]) for name in ("event", "rank", "start_s", "end_s")
    }
    lasted_s = columns["end_s"] - columns["start_s"]
    columns |= {name: columns[name] - zero_s for name in ("start_s", "end_s")}
    return {
        "count": len(steps),
        "sums_s": np.bincount(what, weights=lasted_s, minlength=len(STEPS)).tolist(),
        **{name: encode(column) for name, column in (columns | {"what": what}).items()},
    }
