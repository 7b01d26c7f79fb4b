"""Operations on rows and blocks that several transforms share."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringtree.ir.ranges import positions
from ringtree.ir.schedule import Block, Schedule, Transfers


def refine(schedule: Schedule, chunks: int) -> Schedule:
    """The schedule with every chunk cut evenly so that there are `chunks` of them (a multiple of the present
    number)."""
    by, rest = divmod(chunks, schedule.chunks)
    if by < 1 or rest:
        raise ValueError(f"{schedule.name}: has {schedule.chunks} chunks; expected a multiple of that, got {chunks}")
    if by == 1:
        return schedule
    blocks = []
    for b in schedule.blocks:
        rows = move(b.rows, b.rows.source_chunk * by, b.rows.target_chunk * by, b.rows.count * by)
        s = b.shift
        shift = s._replace(source_chunk=s.source_chunk * by, target_chunk=s.target_chunk * by)
        blocks.append(Block(rows, b.times, shift))
    return replace(schedule, chunks=chunks, scratch=schedule.scratch * by, blocks=tuple(blocks))


def alike(*schedules: Schedule) -> list[Schedule]:
    """The schedules, each refined to the fewest chunks that suit all."""
    chunks = lcm(*(s.chunks for s in schedules))
    return [refine(s, chunks) for s in schedules]


def move(
    rows: Transfers, source_chunk: NDArray[np.int32], target_chunk: NDArray[np.int32], count: NDArray[np.int32]
) -> Transfers:
    """The rows with other chunks."""
    return replace(rows, source_chunk=source_chunk, target_chunk=target_chunk, count=count)


def single(rows: Transfers) -> Transfers:
    """The rows with one chunk a row."""
    return cut(rows, *parts(rows.count), 1) if np.any(rows.count > 1) else rows


def parts(counts: NDArray[np.int32]) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """The row's index and the chunk's position in the row, for every chunk of every row."""
    return np.arange(len(counts)).repeat(counts), positions(counts).astype(np.int32)


def cut(rows: Transfers, index: NDArray[np.intp], offset: NDArray[np.int32], count: ArrayLike) -> Transfers:
    """Parts of rows: of row index[i] the `count` chunks from offset[i] on."""
    cuts = rows.take(index)
    counts = np.broadcast_to(np.asarray(count, dtype=np.int32), cuts.count.shape).copy()
    return move(cuts, cuts.source_chunk + offset, cuts.target_chunk + offset, counts)


def expand_block(schedule: Schedule, block: Block) -> Block:
    """The block written out, so that it is done once."""
    return block if block.times == 1 else Block(replace(schedule, blocks=(block,)).expand())


def fuse(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Blocks done once each, as one block whose rounds follow on; as they are if any of them repeats."""
    full = [b for b in blocks if len(b.rows)]
    if len(full) < 2 or any(b.times > 1 for b in full):
        return tuple(full)
    starts = np.cumsum([0, *(b.rounds for b in full)])
    return (Block(Transfers.concatenate(later(b.rows, int(at)) for b, at in zip(full, starts, strict=False))),)


def later(rows: Transfers, rounds: int) -> Transfers:
    """The rows, that many rounds later."""
    return replace(rows, round=(rows.round + rounds).astype(np.int32))


def by_round(parts: list[Transfers]) -> Transfers:
    """Rows of several lists side by side: in a round, those of the first list come first."""
    rows = Transfers.concatenate(parts)
    return rows.take(np.argsort(rows.round, kind="stable"))


def joined(rows: Transfers) -> Transfers:
    """The same rows; those that follow one another in the list and on the vector are one."""
    if len(rows) < 2:
        return rows
    same = np.ones(len(rows) - 1, np.bool_)
    for name in ("round", "source", "target", "source_buffer", "target_buffer", "reduce"):
        column = getattr(rows, name)
        same &= column[1:] == column[:-1]
    for column in (rows.source_chunk, rows.target_chunk):
        same &= column[1:] == column[:-1] + rows.count[:-1]
    first = np.flatnonzero(np.append(True, ~same))
    return replace(rows.take(first), count=np.add.reduceat(rows.count, first).astype(np.int32))
