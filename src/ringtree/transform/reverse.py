"""Time turned round: broadcast <-> reduce, all_gather <-> reduce_scatter, scatter <-> gather."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from ringtree.transform.rows import expand_block, parts, single

OPPOSITE = {
    "broadcast": "reduce",
    "reduce": "broadcast",
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
    "scatter": "gather",
    "gather": "scatter",
    "all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
    "barrier": "barrier",
}
STORES = ("broadcast", "all_gather", "scatter", "gather")


def reverse(schedule: Schedule) -> Schedule:
    """The schedule backwards, sources and targets exchanged: the transposed (adjoint) schedule.

    A copy from one to many becomes a sum of many into one, and the reverse. all_reduce, all_to_all and barrier become
    another schedule of the same collective. Transfers of unused contents are left out. Cost: O(rows) for in-cell
    schedules without scratch in which nothing is overwritten (a rank's sum, say, by the sum of all), else
    O(transfers log transfers). A two-buffer schedule that reads its output cannot be turned (nothing may write its
    input then): ValueError; nor a prefix reduction, for that would be one over later ranks.
    """
    if schedule.promise.prefix:
        raise ValueError(f"{schedule.name}: {schedule.collective} backwards is over later ranks; it has no opposite")
    turned = replace(
        schedule,
        collective=OPPOSITE[schedule.collective],
        blocks=tuple(_backwards(schedule, b) for b in reversed(schedule.blocks)),
    )
    if any(np.any(b.rows.target_buffer == Buffer.INPUT) for b in turned.blocks):
        raise ValueError(
            f"{schedule.name}: reads its output, which backwards writes the input; expected reverse(in_place(schedule))"
        )
    blocks = turned.blocks
    if schedule.in_place and not schedule.scratch:
        if turned.collective in STORES and _stores_each_once(turned):
            return _with_flags(turned, [np.zeros(len(b.rows), dtype=np.bool_) for b in blocks])
        if all(np.all(b.rows.reduce) for b in blocks) or _stores_each_once(schedule):
            return _with_flags(turned, [np.ones(len(b.rows), dtype=np.bool_) for b in blocks])
    return _traced(turned)


def _stores_each_once(schedule: Schedule) -> bool:
    """Whether every rank receives exactly the chunks of its output that it lacks, so that none is overwritten."""
    s = schedule
    if s.collective not in STORES or any(np.any(b.rows.source == b.rows.target) for b in s.blocks):
        return False
    lacks = []
    for rank in range(s.ranks):
        postcondition, precondition = s.postcondition(rank), s.precondition(rank)
        lacks.append(
            len(postcondition)
            - max(0, min(postcondition.stop, precondition.stop) - max(postcondition.start, precondition.start))
        )
    return bool(s.chunks_received().tolist() == lacks)


def _backwards(schedule: Schedule, block: Block) -> Block:
    """Last row first, source and target exchanged; `reduce` is still the row's own, from before."""
    shift = block.shift
    rows = schedule.repetitions(block, np.array([block.times - 1])).take(slice(None, None, -1))
    swap = np.array([Buffer.DATA, Buffer.OUTPUT, Buffer.INPUT, Buffer.SCRATCH], dtype=np.int32)
    rows = Transfers(
        round=block.rounds - 1 - rows.round,
        source=rows.target,
        target=rows.source,
        source_buffer=swap[rows.target_buffer],
        source_chunk=rows.target_chunk,
        target_buffer=swap[rows.source_buffer],
        target_chunk=rows.source_chunk,
        count=rows.count,
        reduce=rows.reduce,
    )
    back = Shift(-shift.target, -shift.source, -shift.target_chunk, -shift.source_chunk)
    return Block(rows, block.times, back)


def _with_flags(schedule: Schedule, flags: list[NDArray[np.bool_]]) -> Schedule:
    """The schedule with these `reduce` flags."""
    blocks = (Block(replace(b.rows, reduce=f), b.times, b.shift) for b, f in zip(schedule.blocks, flags, strict=True))
    return replace(schedule, blocks=tuple(blocks))


def _traced(schedule: Schedule) -> Schedule:
    """Finds for every transfer whether it stores or reduces; `reduce` has the forward row's flag.

    A content that a forward store overwrote is spent once the row's backward twin has read it. A row into an empty or
    spent chunk stores; every other row reduces. A row from a spent chunk is left out: forwards, its content was never
    used.
    """
    rows = schedule.expand()
    full, idle = _flags(schedule, rows)
    if not np.any(idle) and (flags := _per_row(rows, full)) is not None:
        blocks, marks, start = [], [], 0
        for b in schedule.blocks:
            mine = flags[start : start + len(b.rows) * b.times].reshape(b.times, len(b.rows))
            start += mine.size
            alike = b.times == 1 or bool(np.all(mine == mine[0]))
            blocks.append(b if alike else expand_block(schedule, b))
            marks.append(mine[0] if alike else mine.reshape(-1))
        return _with_flags(replace(schedule, blocks=tuple(blocks)), marks)
    rows = single(rows)
    while np.any(idle):  # without these rows, others may be idle
        rows = rows.take(~idle)
        full, idle = _flags(schedule, rows)
    blocks = [Block(replace(rows, reduce=full))] if len(rows) else []
    return replace(schedule, blocks=tuple(blocks))


def _per_row(rows: Transfers, full: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """One flag a row from one a chunk; None where chunks of a row differ."""
    flags = full[np.cumsum(rows.count) - rows.count]
    return flags if np.array_equal(flags.repeat(rows.count), full) else None


def _flags(schedule: Schedule, rows: Transfers) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Per chunk of every row: whether its target has a content, and whether its source has none."""
    lengths = schedule.lengths
    bases = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    index, offset = parts(rows.count)

    def cell(rank: NDArray[np.int32], buffer: NDArray[np.int32], chunk: NDArray[np.int32]) -> NDArray[np.int64]:
        at: NDArray[np.int64] = rank[index] * bases[-1] + bases[buffer[index]] + chunk[index] + offset
        return at

    where = np.concatenate(
        [
            cell(rows.source, rows.source_buffer, rows.source_chunk),
            cell(rows.target, rows.target_buffer, rows.target_chunk),
        ]
    )
    m = len(index)
    writes = np.arange(2 * m) >= m
    step = 2 * np.tile(rows.round[index], 2).astype(np.int64) + writes  # in a round, all reads come before all writes
    order = np.lexsort((np.arange(2 * m), step, where))
    where, writes = where[order], writes[order]
    changes = writes | ~np.tile(rows.reduce[index], 2)[order]  # a read changes a cell if it spends its content
    fresh = np.diff(where, prepend=-1) != 0
    at = np.arange(2 * m)
    before = np.concatenate([[-1], np.maximum.accumulate(np.where(changes, at, -1))])[: 2 * m]
    first_here = np.maximum.accumulate(np.where(fresh, at, 0))
    seen = np.where(before >= first_here, writes[before], _starts_full(schedule, int(bases[-1]), bases)[where])
    result = np.empty(2 * m, dtype=np.bool_)
    result[order] = seen
    return result[m:], ~result[:m]


def _starts_full(schedule: Schedule, per_rank: int, bases: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The cells with a content before the schedule starts: its inputs."""
    full = np.zeros(schedule.participants * per_rank, dtype=np.bool_)
    for rank in range(schedule.ranks):
        precondition = schedule.precondition(rank)
        at = rank * per_rank + int(bases[Buffer.DATA])
        full[at + precondition.start : at + precondition.stop] = True
        at = rank * per_rank + int(bases[Buffer.INPUT])
        full[at : at + len(precondition)] = True
    return full
