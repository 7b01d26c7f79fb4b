"""The sends of each rank in a round, in a few words: `3 +> 1` adds chunk 3 to rank 1's, `0:4 -> 2,3` stores four."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ringtree.draw.text.labels import chunk_label, targets
from ringtree.ir.schedule import Transfers

SHORTEST = 4
"""Fewer sends in a row are written one by one."""


class _Send(NamedTuple):
    reduce: bool
    target: int
    buffer: int
    to_buffer: int
    chunk: int
    to: int
    chunks: int


def sends(rows: Transfers, participants: int, room: int) -> dict[int, str]:
    """The sends as text, by sending rank, cut to `room` characters; the first send and the count of those left out may
    go beyond."""
    names = ("reduce", "target", "source_buffer", "target_buffer", "source_chunk", "target_chunk", "count")
    by_source = defaultdict[int, list[_Send]](list)
    columns = (getattr(rows, name).tolist() for name in names)
    for source, send in zip(rows.source.tolist(), map(_Send._make, zip(*columns, strict=True)), strict=True):
        by_source[source].append(send)
    return {
        source: _shortened(list(_written(source, _joined(mine), participants)), room)
        for source, mine in by_source.items()
    }


def _joined(sends: list[_Send]) -> list[_Send]:
    """Joins neighbouring chunks with one target into one range."""
    found: list[_Send] = []
    for send in sorted(sends):
        last = found[-1] if found else None
        if last and last[:4] == send[:4] and (last.chunk + last.chunks, last.to + last.chunks) == (send.chunk, send.to):
            found[-1] = last._replace(chunks=last.chunks + send.chunks)
        else:
            found.append(send)
    return found


def _written(source: int, sends: list[_Send], participants: int) -> Iterator[str]:
    """Writes equal sends to several ranks once; of a long row of sends, each one on, the first two and the last."""
    alike = defaultdict[_Send, list[int]](list)
    for send in sends:
        alike[send._replace(target=-1)].append(send.target)
    every = [(send, to) for send, to in alike.items()]
    at = 0
    while at < len(every):
        stop = _row_end(every, at)
        row = every[at:stop] if stop - at >= SHORTEST else every[at : at + 1]
        at += len(row)
        for send, to in row if len(row) == 1 else row[:2]:
            yield _one(source, send, to, participants)
        if len(row) > 1:
            yield "… " + _one(source, *row[-1], participants)


def _row_end(every: list[tuple[_Send, list[int]]], at: int) -> int:
    """Up to where sends to one rank each go on by the same steps."""

    def step(i: int) -> tuple[int, ...] | None:
        (a, to_a), (b, to_b) = every[i], every[i + 1]
        if len(to_a) > 1 or len(to_b) > 1 or a[:4] != b[:4] or a.chunks != b.chunks:
            return None
        return to_b[0] - to_a[0], b.chunk - a.chunk, b.to - a.to

    stop = at + 1
    while stop < len(every) and (first := step(at)) is not None and step(stop - 1) == first:
        stop += 1
    return stop


def _one(source: int, send: _Send, to: list[int], participants: int) -> str:
    here = chunk_label(send.buffer, send.chunk, send.chunks, 0)
    there = chunk_label(send.to_buffer, send.to, send.chunks, 1)
    same = here == there or (send.buffer, send.chunk) == (send.to_buffer, send.to)
    where = "" if same else f"[{there}]"
    return f"{here} {'+>' if send.reduce else '->'} {targets(to, source, participants)}{where}"


def _shortened(parts: list[str], room: int) -> str:
    """The first sends, as many as have room, and the number of the others."""
    text = parts[0]
    for number, one in enumerate(parts[1:], 1):
        longer = f"{text}{' ' if one[0] == '…' else ', '}{one}"
        if len(longer) > room:
            return f"{text}, {len(parts) - number} more"
        text = longer
    return text
