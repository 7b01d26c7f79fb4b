"""Routes of data through a machine, for a terminal: channels, which go round its GPUs, and the routes of a copy from
one GPU to another, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from ringtree.draw.text.labels import gapped
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.ir import units
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.copies import CopyRoute

HEADS = (Pattern.NVLS, Pattern.COLLNET_DIRECT)
MOST_GPUS, MOST_CHANNELS = 16, 8
"""The GPUs of an order, and the channels of a pattern, that are written one by one."""
PIECE_NBYTES = 1 << 20
"""The bytes for which the time of a route is printed."""


def channel_lines(graphs: Iterable[Channels]) -> list[Line]:
    """A head a pattern, and a line a channel; neighbours that are the same are one."""
    return [line for channels in graphs if channels.count for line in _channels(channels)]


def _channels(c: Channels) -> Iterator[Line]:
    inside = f"{units.bandwidth(c.intra_Bps)} each over {c.intra.name}"
    outside = f", {units.bandwidth(c.inter_Bps)} each to the network over {c.inter.name}" if c.nics else ""
    name = c.pattern.value.replace("_", " ")
    yield TextSpan(name, "head"), TextSpan(f"  {units.count(c.count, 'channel')}, {inside}{outside}", "faint")
    runs = [(order, len(list(same))) for order, same in groupby(_order(c, n) for n in range(c.count))]
    for position in gapped(len(runs), MOST_CHANNELS):
        if position is None:
            yield (TextSpan("  …", "faint"),)
            continue
        order, times = runs[position]
        yield (TextSpan(f"  {order}"), *((TextSpan(f"  {times} times", "faint"),) if times > 1 else ()))


def _order(c: Channels, channel: int) -> str:
    """NIC0 → 0 → 1 → … → NIC0; a ring that stays inside comes back to where it began."""
    order = c.orders[channel]
    if c.pattern in HEADS:
        return f"GPU {order[0]} gathers from all others"
    steps = ["…" if position is None else str(order[position]) for position in gapped(len(order), MOST_GPUS)]
    if c.nics:
        first, last = c.nics[channel]
        return " → ".join([f"NIC{first}", *steps, f"NIC{last}"])
    if c.pattern is Pattern.RING and len(order) > 1:
        steps.append(str(order[0]))
    return " → ".join(steps)


def copy_lines(routes: Sequence[CopyRoute], width: int) -> list[Line]:
    """A head a route, with a mark where it is taken, then a line a copy, and why the route is taken or not."""
    steps = [copy for route in routes for copy in route.copies]
    what = max((len(route.way) for route in routes), default=0)
    name = max((len(copy.what) for copy in steps), default=0)
    ends = max((len(f"{copy.source} → {copy.target}") for copy in steps), default=0)
    lines: list[Line] = []
    for route in routes:
        lines += [(), *_route(route, what, name, ends, width)] if lines else [*_route(route, what, name, ends, width)]
    return lines


def _route(route: CopyRoute, what: int, name: int, ends: int, width: int) -> Iterator[Line]:
    mark = TextSpan("✓ ", "near") if route.verdict.applies else TextSpan("  ")
    figures = (
        f"  {units.count(route.stops, 'stop'):<8}{units.bandwidth(route.bandwidth_Bps):>10}"
        f"   {units.size(PIECE_NBYTES)} in {units.duration(route.pipelined_s(PIECE_NBYTES))}"
    )
    yield mark, TextSpan(f"{route.way:<{what}}", "head" if route.verdict.applies else ""), TextSpan(figures)
    for copy in route.copies:
        moved = f"    {copy.what:<{name}}  {f'{copy.source} → {copy.target}':<{ends}}  by the {copy.by.value:<5}"
        cost = f"{units.bandwidth(copy.bandwidth_Bps):>10}  {units.duration(copy.latency_s)}"
        yield TextSpan(moved, "" if route.verdict.applies else "faint"), TextSpan(cost, "faint")
    yield from ((TextSpan(f"    {line}", "faint"),) for line in wrap(route.verdict.why, max(width - 4, 24)))
