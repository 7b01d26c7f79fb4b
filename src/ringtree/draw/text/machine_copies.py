"""The ways from one GPU to another beside one another for a terminal: what is copied on each, by whom, how fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from ringtree.draw.text.lines import Line, Span
from ringtree.ir import units
from ringtree.machines.copies import Transfer

PIECE_NBYTES = 1 << 20
"""What the time is told of."""


def copy_lines(ways: Sequence[Transfer], width: int) -> list[Line]:
    """A head a way, with a mark where it is taken, then a line a copy, and why the way is taken or not."""
    steps = [copy for way in ways for copy in way.copies]
    what = max((len(way.way) for way in ways), default=0)
    name = max((len(copy.what) for copy in steps), default=0)
    place = max((len(f"{copy.source} → {copy.target}") for copy in steps), default=0)
    lines: list[Line] = []
    for way in ways:
        lines += [(), *_way(way, what, name, place, width)] if lines else [*_way(way, what, name, place, width)]
    return lines


def _way(way: Transfer, what: int, name: int, place: int, width: int) -> Iterator[Line]:
    mark = Span("✓ ", "near") if way.verdict.applies else Span("  ")
    figures = (
        f"  {units.count(way.stops, 'stop'):<8}{units.bandwidth(way.bandwidth_Bps):>10}"
        f"   {units.size(PIECE_NBYTES)} in {units.duration(way.pipelined_s(PIECE_NBYTES))}"
    )
    yield mark, Span(f"{way.way:<{what}}", "head" if way.verdict.applies else ""), Span(figures)
    for copy in way.copies:
        moved = f"    {copy.what:<{name}}  {f'{copy.source} → {copy.target}':<{place}}  by the {copy.by.value:<5}"
        cost = f"{units.bandwidth(copy.bandwidth_Bps):>10}  {units.duration(copy.latency_s)}"
        yield Span(moved, "" if way.verdict.applies else "faint"), Span(cost, "faint")
    yield from ((Span(f"    {line}", "faint"),) for line in wrap(way.verdict.why, max(width - 4, 24)))
