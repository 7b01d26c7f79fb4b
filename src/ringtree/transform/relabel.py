"""The schedule with its ranks renamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import BufferExtent
from ringtree.ir.schedule import Block, Buffer, Column, Schedule, Transfers
from ringtree.transform.rows import cut, expand_block, parts


def relabel(schedule: Schedule, order: Sequence[int] | NDArray[np.integer]) -> Schedule:
    """Makes rank r rank order[r], and the root with it. ValueError: unless `order` [ranks] is a permutation.

    Where the vector is blocks by rank, blocks are renamed too, so that it stays the same collective: block r becomes
    block order[r]. A ring's all_reduce stays as short as it was under any order; blocks that move on through
    blocks by rank (reduce_scatter, all_gather) stay short under rotations, else they are written out.
    """
    n = schedule.ranks
    given = np.asarray(order)
    new = given.astype(np.int64)
    if given.shape != (n,) or given.dtype.kind not in "iu" or not np.array_equal(np.sort(new), np.arange(n)):
        raise ValueError(f"{schedule.name}: order is not a permutation of its ranks 0..{n - 1}: got {list(order)[:20]}")
    if schedule.promise.prefix and np.any(new != np.arange(n)):
        raise ValueError(
            f"{schedule.name}: {schedule.collective} depends on the order of ranks; expected a collective that does not"
        )
    turn = bool(np.all((new - new[0] - np.arange(n)) % n == 0))
    names = np.concatenate([new, np.arange(n, schedule.participants)])
    blocks = tuple(_renamed(schedule, b, names, turn) for b in schedule.blocks)
    root = None if schedule.root is None else int(new[schedule.root])
    return replace(schedule, blocks=blocks, root=root)


def _renamed(schedule: Schedule, block: Block, names: NDArray[np.int64], turn: bool) -> Block:
    shift, blocked = block.shift, schedule.promise.blocked
    through = blocked and bool(shift.source_chunk or shift.target_chunk)
    moves = bool(shift.source or shift.target) or through
    if (moves and not turn) or (through and np.any(block.rows.count > 1)):
        block = expand_block(schedule, block)
    rows = block.rows
    if blocked:
        rows = _split_at_blocks(rows, schedule.chunks // schedule.ranks)
    renamed = replace(
        rows,
        source=names[rows.source].astype(np.int32),
        target=names[rows.target].astype(np.int32),
        source_chunk=_chunks(schedule, rows.source_buffer, rows.source_chunk, names),
        target_chunk=_chunks(schedule, rows.target_buffer, rows.target_chunk, names),
    )
    return Block(renamed, block.times, block.shift)


def _chunks(schedule: Schedule, buffer: Column, chunk: Column, names: NDArray[np.int64]) -> Column:
    """The positions of the chunks after the blocks are renamed, in buffers that are the whole vector."""
    promise = schedule.promise
    if not promise.blocked:
        return chunk
    own = [
        b for b, part in ((Buffer.INPUT, promise.before), (Buffer.OUTPUT, promise.after)) if part is BufferExtent.OWN
    ]
    size = schedule.chunks // schedule.ranks
    whole = ~np.isin(buffer, [*own, Buffer.SCRATCH])
    moved = names[np.where(whole, chunk // size, 0)] * size + chunk % size
    return np.where(whole, moved, chunk).astype(np.int32)


def _split_at_blocks(rows: Transfers, size: int) -> Transfers:
    """The rows, cut so that none reaches over a multiple of `size`."""
    if not np.any((rows.source_chunk % size + rows.count > size) | (rows.target_chunk % size + rows.count > size)):
        return rows
    index, offset = parts(rows.count)
    ends = (rows.source_chunk[index] + offset, rows.target_chunk[index] + offset)
    starts = np.flatnonzero((offset == 0) | (ends[0] % size == 0) | (ends[1] % size == 0))
    return cut(rows, index[starts], offset[starts], np.diff(starts, append=len(offset)))
