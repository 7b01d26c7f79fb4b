"""Schedules in place: from two buffers to one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ringtree.ir.collective import BufferExtent
from ringtree.ir.schedule import Block, Buffer, Column, Schedule, Transfers


def in_place(schedule: Schedule) -> Schedule:
    """The schedule on DATA, so that it can be composed.

    Where every row moves a position of the vector to the same position and no row reduces, input and output become
    one; else the output is collected in scratch and copied to DATA in one more, local round. Cost: O(transfers).
    """
    if schedule.in_place:
        return schedule
    s, rows = schedule, schedule.expand()
    size = s.chunks // s.ranks
    source = _position(rows.source, rows.source_buffer, rows.source_chunk, size, _own(s))
    target = _position(rows.target, rows.target_buffer, rows.target_chunk, size, _own(s))
    outer = (rows.source_buffer != Buffer.SCRATCH) & (rows.target_buffer != Buffer.SCRATCH)
    if np.all(outer & ~rows.reduce & (source == target)):
        away = rows.source != rows.target
        data = np.full(len(rows), Buffer.DATA, dtype=np.int32)
        moved = replace(rows, source_buffer=data, target_buffer=data, source_chunk=source, target_chunk=target)
        kept = moved.take(away)
        return replace(s, blocks=(Block(kept),) if len(kept) else ())
    collected = replace(
        rows,
        source_buffer=_renamed(rows.source_buffer),
        target_buffer=_renamed(rows.target_buffer),
        source_chunk=np.where(rows.source_buffer == Buffer.OUTPUT, rows.source_chunk + s.scratch, source),
        target_chunk=np.where(rows.target_buffer == Buffer.OUTPUT, rows.target_chunk + s.scratch, target),
    )
    scratch = s.scratch + s.buffer_chunks(Buffer.OUTPUT)
    return replace(s, blocks=(Block(collected), Block(_home(s))), scratch=scratch)


def _own(schedule: Schedule) -> list[Buffer]:
    """The buffers that are the rank's own block."""
    promise = schedule.promise
    return [
        b for b, part in ((Buffer.INPUT, promise.before), (Buffer.OUTPUT, promise.after)) if part is BufferExtent.OWN
    ]


def _position(rank: Column, buffer: Column, chunk: Column, size: int, own: list[Buffer]) -> Column:
    """The chunk on the whole vector, where the buffer is one; scratch stays as it is."""
    return np.where(np.isin(buffer, own), chunk + rank * size, chunk).astype(np.int32)


def _renamed(buffer: Column) -> Column:
    names = np.array([Buffer.DATA, Buffer.DATA, Buffer.SCRATCH, Buffer.SCRATCH], dtype=np.int32)
    return names[buffer]


def _home(schedule: Schedule) -> Transfers:
    """Every rank copies its output from behind the schedule's own scratch to its window of DATA."""
    s = schedule
    postcondition = [s.postcondition(rank) for rank in range(s.ranks)]
    rank = np.array([r for r in range(s.ranks) if len(postcondition[r])])
    return Transfers.of(
        rank,
        rank,
        s.scratch,
        to=[postcondition[r].start for r in rank],
        count=[len(postcondition[r]) for r in rank],
        source_buffer=Buffer.SCRATCH,
        target_buffer=Buffer.DATA,
    )
