"""The bytes of a traced step that crossed from host to host, beside the fewest that could."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ringtree.ir.trace import Event, Trace
from ringtree.training.core.layout import ParallelLayout
from ringtree.training.measure.shares import channel_members, collectives_and_axes, group_names
from ringtree.training.strategies.strategy import Traffic

FEWEST: dict[str, Callable[[list[int]], float]] = {
    "all_reduce": lambda each: 2.0 * (len(each) - 1),
    "all_gather": lambda each: len(each) - 1.0,
    "reduce_scatter": lambda each: len(each) - 1.0,
    "broadcast": lambda each: len(each) - 1.0,
    "all_to_all": lambda each: sum(ranks * (sum(each) - ranks) for ranks in each) / sum(each),
}
"""Bytes between hosts over those of the whole vector (see Traffic), in all, of a group with so many ranks on each host:
as if each host were one rank."""


@dataclass(frozen=True, slots=True)
class BetweenHosts:
    """The bytes of one collective over one axis that leave hosts in a step: the fewest by `formula_nbytes` (None: it
    depends on which ranks send to which), `counted_nbytes` in the trace, and of these `busiest_nbytes` over the link of
    the host that sends most."""

    collective: str
    axis: str
    formula_nbytes: int | None
    counted_nbytes: int
    busiest_nbytes: int


def between_hosts(
    trace: Trace, layout: ParallelLayout, traffic: Sequence[Traffic], hosts: Sequence[int]
) -> list[BetweenHosts]:
    """A row for each collective over each axis that a formula or the count sends between hosts. `hosts`: the number of
    each rank's host."""
    keys, channels = collectives_and_axes(trace, layout, traffic), len(channel_members(trace))
    host = np.asarray(hosts)
    sent = np.flatnonzero((trace.kind == Event.SEND) & (trace.peer >= 0))
    sent = sent[host[trace.rank[sent]] != host[trace.peer[sent]]]
    counted: dict[tuple[str, str], Counter[int]] = {}
    at = (trace.call[sent] * channels + trace.channel[sent]).tolist()
    for key, source, nbytes in zip(at, host[trace.rank[sent]].tolist(), trace.nbytes[sent].tolist(), strict=True):
        counted.setdefault(keys[key], Counter())[source] += nbytes
    formulas = _formulas(layout, traffic, hosts)
    return [
        BetweenHosts(*kind, formulas.get(kind, 0), sum(of_host.values()), max(of_host.values(), default=0))
        for kind in dict.fromkeys([*(kind for kind, nbytes in formulas.items() if nbytes != 0), *counted])
        for of_host in [counted.get(kind, Counter())]
    ]


def _formulas(
    layout: ParallelLayout, traffic: Sequence[Traffic], hosts: Sequence[int]
) -> dict[tuple[str, str], int | None]:
    """The fewest bytes between hosts by collective and axis."""
    found, names = dict[tuple[str, str], int | None](), group_names(layout, traffic)
    for t in traffic:
        groups = layout.groups(t.axis)
        kind = t.collective, names[t.collective, groups[0]]
        parts = [_fewest(t, [hosts[rank] for rank in group], t.nbytes / len(groups), layout) for group in groups]
        before = found.get(kind, 0)
        known = before is not None and all(part is not None for part in parts)
        found[kind] = round((before or 0) + sum(part or 0.0 for part in parts)) if known else None
    return found


def _fewest(t: Traffic, of_ranks: Sequence[int], nbytes: float, layout: ParallelLayout) -> float | None:
    """The fewest bytes between the hosts of one group's ranks; None where that depends on who sends to whom."""
    each = list(Counter(of_ranks).values())
    if len(each) == 1:
        return 0.0
    if t.collective in FEWEST:
        return FEWEST[t.collective](each) * nbytes
    if len(each) == len(of_ranks):
        return nbytes
    if t.collective == "send" and (edges := _edges(t.axis, len(of_ranks), layout)):
        return nbytes * sum(of_ranks[a] != of_ranks[b] for a, b in edges) / len(edges)
    return None


def _edges(axis: str, ranks: int, layout: ParallelLayout) -> list[tuple[int, int]]:
    """The neighbours that send equally much to each other: around a ring of attention, or at the cuts of a model
    that has one stage on each rank. Empty for others."""
    if axis == "cp":
        return [(k, (k + 1) % ranks) for k in range(ranks)]
    if axis == "pp" and layout.schedule != "interleaved":
        return [(k, k + 1) for k in range(ranks - 1)]
    return []
