"""Ranges of blocks as rows of a schedule: helpers of several algorithms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Transfers


def wrapped(rows: Transfers, chunks: int) -> Transfers:
    """The rows, for in-place schedules of `chunks` chunks; a range that runs past the end goes on from the beginning.

    Chunks may be given beyond the end, to be taken modulo `chunks`. Empty ranges are left out.
    """
    start = rows.source_chunk % chunks
    beyond = np.maximum(start + rows.count - chunks, 0)
    both = np.repeat(np.arange(len(rows)), 2)  # the range up to the end, then the rest
    start = np.where(np.arange(len(both)) % 2, 0, start[both]).astype(np.int32)
    count = np.stack([rows.count - beyond, beyond], axis=1).reshape(-1).astype(np.int32)
    split = replace(rows.take(both), source_chunk=start, target_chunk=start, count=count)
    return split.take(count > 0)


def runs(source: int, target: int, blocks: NDArray[np.int64], round: int) -> Transfers:
    """The rows of these blocks from `source` to `target`, neighbours in one row."""
    order = np.sort(blocks)
    first = np.flatnonzero(np.diff(order, prepend=-2) != 1)
    count = np.diff(np.append(first, len(order)))
    return Transfers.of(source, target, order[first], count=count, round=round)


def backwards(rows: Transfers) -> Transfers:
    """The reversed rows, which reduce: last round first, source and target exchanged. For in-place rows."""
    round = rows.round.max(initial=0) - rows.round
    up = replace(rows, source=rows.target, target=rows.source, round=round, reduce=np.ones(len(rows), dtype=np.bool_))
    return up.take(np.argsort(round, kind="stable"))
