"""Channels for a terminal: which GPUs each goes through, by which NICs, how fast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from ringtree.draw.text.labels import spread
from ringtree.draw.text.lines import Line, Span
from ringtree.ir import units
from ringtree.machines.channels import Channels, Pattern

HEADS = (Pattern.NVLS, Pattern.COLLNET_DIRECT)
MOST_GPUS, MOST_CHANNELS = 16, 8
"""Of an order, and of a pattern, that are told one by one."""


def channel_lines(graphs: Iterable[Channels]) -> list[Line]:
    """A head a pattern, and a line a channel; neighbours that are the same are one."""
    return [line for channels in graphs if channels.count for line in _pattern(channels)]


def _pattern(c: Channels) -> Iterator[Line]:
    inside = f"{units.bandwidth(c.intra_Bps)} each over {c.intra.name}"
    outside = f", {units.bandwidth(c.inter_Bps)} each to the network over {c.inter.name}" if c.nics else ""
    name = c.pattern.value.replace("_", " ")
    yield Span(name, "head"), Span(f"  {units.count(c.count, 'channel')}, {inside}{outside}", "faint")
    routes = [_route(c, n) for n in range(c.count)]
    runs = [(route, len(list(same))) for route, same in groupby(routes)]
    kept = spread(len(runs), MOST_CHANNELS)
    for n, place in enumerate(kept):
        if n and kept[n - 1] + 1 < place:
            yield (Span("  …", "faint"),)
        route, times = runs[place]
        yield (Span(f"  {route}"), *((Span(f"  {times} times", "faint"),) if times > 1 else ()))


def _route(c: Channels, channel: int) -> str:
    """NIC0 → 0 → 1 → … → NIC0; a ring that stays inside comes back to where it began."""
    order = c.orders[channel]
    if c.pattern in HEADS:
        return f"GPU {order[0]} gathers from all others"
    kept = spread(len(order), MOST_GPUS)
    steps: list[str] = []
    for n, place in enumerate(kept):
        steps += ["…"] if n and kept[n - 1] + 1 < place else []
        steps.append(str(order[place]))
    if c.nics:
        first, last = c.nics[channel]
        return " → ".join([f"NIC{first}", *steps, f"NIC{last}"])
    if c.pattern is Pattern.RING and len(order) > 1:
        steps.append(str(order[0]))
    return " → ".join(steps)
