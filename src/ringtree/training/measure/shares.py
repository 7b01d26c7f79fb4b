"""The times of a traced step, and the bytes that it sent: by collective, and by the axis it went over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms import REGISTRY, serving
from ringtree.ir.trace import Event, Trace
from ringtree.training.core.layout import AXES, JOINED, ParallelLayout
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.strategies.strategy import Traffic

ENGINES = {"exchange_parts": "all_to_all_v", "message": "send"}
"""Calls of the engine that a formula knows by another name."""
WORK = (Event.COPY, Event.REDUCE, Event.STALL)


@dataclass(frozen=True, slots=True)
class Share:
    """The cost of one collective over one axis in a step: seconds that a rank was at work in it (copying, adding up,
    short of room) and waited in it for others, on the average over all ranks; and the bytes that all of them sent, by
    which algorithms."""

    collective: str
    axis: str
    work_s: float
    wait_s: float
    sent_nbytes: int
    algorithms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """Formula and count beside one another. `whats`: the traffic of this collective over this axis by the formula,
    empty without one. `counted_nbytes`: of the trace, by which `algorithms`; None where it has none. `why` that is
    more, where it is known."""

    whats: tuple[str, ...]
    collective: str
    axis: str
    ranks: int
    formula_nbytes: int
    counted_nbytes: int | None
    algorithms: tuple[str, ...] = ()
    why: str = ""


def shares(trace: Trace, layout: ParallelLayout, traffic: Iterable[Traffic]) -> list[Share]:
    """The shares of a traced step, the longest first. Groups have the traffic's names."""
    channels = channel_members(trace)
    keys = collectives_and_axes(trace, layout, traffic)
    ran = [call.partition(") by ")[2] for call in trace.calls for _ in channels]
    lasted_s = trace.end_s - trace.start_s
    key = trace.call * len(channels) + trace.channel

    def summed(kinds: Sequence[Event], of: NDArray[Any]) -> NDArray[np.float64]:
        mine = np.isin(trace.kind, kinds)
        return np.bincount(key[mine], weights=of[mine], minlength=len(keys)).astype(np.float64, copy=False)

    columns = zip(
        summed(WORK, lasted_s), summed([Event.WAIT], lasted_s), summed([Event.SEND], trace.nbytes), strict=True
    )
    found: dict[tuple[str, str], NDArray[np.float64]] = {}
    algorithms: dict[tuple[str, str], set[str]] = {}
    for at, algorithm, figures in zip(keys, ran, columns, strict=True):
        found[at] = found.get(at, np.zeros(3)) + figures
        if algorithm and figures[-1]:
            algorithms.setdefault(at, set()).add(algorithm)
    made = [
        Share(
            *at,
            float(work) / trace.ranks,
            float(wait) / trace.ranks,
            int(nbytes),
            tuple(sorted(algorithms.get(at, ()))),
        )
        for at, (work, wait, nbytes) in found.items()
        if work or wait or nbytes
    ]
    return sorted(made, key=lambda share: -(share.work_s + share.wait_s))


def collectives_and_axes(trace: Trace, layout: ParallelLayout, traffic: Iterable[Traffic]) -> list[tuple[str, str]]:
    """The collective and the axis of each call on each channel, at position call * channels + channel."""
    names, channels = group_names(layout, traffic), channel_members(trace)
    calls = [call.split("(")[0].split(" ")[0] for call in trace.calls]
    collectives = [ENGINES.get(call, call) for call in calls]
    return [(c, names.get((c, ranks)) or names.get(("", ranks), "other")) for c in collectives for ranks in channels]


def held_up(trace: Trace) -> Trace:
    """The trace with waits only as long as their rank neither computed nor waited for something else meanwhile: a
    server's waits, beside its worker, delay no rank. Spans of computing may not lie in one another."""
    start_s, end_s = trace.start_s.copy(), trace.end_s.copy()
    for rank in range(trace.ranks):
        mine = trace.rank == rank
        computes, waits = mine & (trace.kind == Event.COMPUTE), np.flatnonzero(mine & (trace.kind == Event.WAIT))
        waits = waits[np.argsort(start_s[waits], kind="stable")]
        until_s = np.maximum.accumulate(np.concatenate(([-np.inf], end_s[waits])))[:-1]
        start_s[waits] = np.minimum(np.maximum(start_s[waits], until_s), end_s[waits])
        begins_s, lengths_s = trace.start_s[computes], trace.end_s[computes] - trace.start_s[computes]
        computed_s = [
            np.clip(moments[:, None] - begins_s, 0, lengths_s).sum(axis=1) for moments in (end_s[waits], start_s[waits])
        ]
        end_s[waits] -= computed_s[0] - computed_s[1]
    return replace(trace, start_s=start_s, end_s=end_s)


def channel_members(trace: Trace) -> list[tuple[int, ...]]:
    """The ranks of each channel's group, from the trace's facts."""
    all_ranks = ", ".join(map(str, range(trace.ranks)))
    facts = [trace.facts.get(f"channel {k}", all_ranks) for k in range(int(trace.channel.max(initial=0)) + 1)]
    # After the ranks there may be more: "messages of ranks 0, 1, overtaken".
    return [tuple(int(rank) for rank in text.split("ranks ")[-1].split(", ") if rank.isdigit()) for text in facts]


def named(trace: Trace, plan: TrainingPlan, name: str) -> Trace:
    """The trace with a name, and with the axis of each channel that has events in its facts."""
    names, used = group_names(plan.layout, ()), set(trace.channel.tolist())
    facts = {key: fact for key, fact in trace.facts.items() if not key.startswith("channel ")}
    for k, members in enumerate(channel_members(trace)):
        if k in used:
            fact = trace.facts.get(f"channel {k}", f"ranks {', '.join(map(str, members))}")
            facts[f"channel {k}"] = f"{names.get(('', members), 'other')}: {fact}"
    return replace(trace, facts={"name": name, **facts})


def group_names(layout: ParallelLayout, traffic: Iterable[Traffic]) -> dict[tuple[str, tuple[int, ...]], str]:
    """The names of groups: in a collective the strategies' name for it, in others ("") the axis."""
    found: dict[tuple[str, tuple[int, ...]], str] = {}
    for collective, name in (*((t.collective, t.axis) for t in traffic), *(("", name) for name in (*AXES, *JOINED))):
        for members in layout.groups(name):
            found.setdefault((collective, members), name)
    found.setdefault(("", tuple(range(layout.ranks))), "all")
    return found


def compare(
    traffic: Sequence[Traffic], found: Sequence[Share], layout: ParallelLayout, once: Mapping[str, str] | None = None
) -> list[Sent]:
    """A row for each collective over each axis, of the formula and of the count. `once`: why a collective sends more
    in this step than in others."""
    names = group_names(layout, traffic)
    rows: dict[tuple[str, str], list[Traffic]] = {}
    for t in traffic:
        if t.wire_nbytes:
            rows.setdefault((t.collective, names[t.collective, layout.groups(t.axis)[0]]), []).append(t)
    counted = {(share.collective, share.axis): share for share in found if share.sent_nbytes}
    sent, reasons = [], once or {}
    for at, parts in rows.items():
        whats, formula = tuple(t.what for t in parts), sum(t.wire_nbytes for t in parts)
        if (share := counted.pop(at, None)) is None:
            sent.append(Sent(whats, *at, parts[0].ranks, formula, None))
        else:
            why = reasons.get(at[0]) or _why(share, parts[0].ranks) if share.sent_nbytes > formula else ""
            sent.append(Sent(whats, *at, parts[0].ranks, formula, share.sent_nbytes, share.algorithms, why))
    for (collective, axis), share in counted.items():
        ranks = layout.size(axis) if axis in (*AXES, *JOINED) else layout.ranks
        why = reasons.get(collective, "")
        sent.append(Sent((), collective, axis, ranks, 0, share.sent_nbytes, share.algorithms, why))
    return sent


def _why(share: Share, ranks: int) -> str:
    """A note on those algorithms that ran and send more than others would; empty without one."""

    def busiest(algorithm: str) -> float:
        return REGISTRY[algorithm].costs[share.collective].evaluate(ranks, 1.0)[1]

    ran = [name for name in share.algorithms if name in REGISTRY]
    fewest = min((busiest(name) for name in serving(share.collective)), default=0.0) if ran else 0.0
    more = [name for name in ran if busiest(name) > 1.001 * fewest]
    return f"{' and '.join(more)}: fewer steps, more bytes" if more else ""
