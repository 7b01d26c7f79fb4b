"""Hillis and Steele: in round k every rank sends its partial sum to the rank 2**k ahead.

A received sum is of lower ranks and goes first: only neighbouring runs of ranks are joined, as a reduction that does
not commute requires. exscan is a shift by one rank, then the scan of all ranks but the first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms.cost import S, cost, lg, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

SOURCE = "Hillis, Steele: Data parallel algorithms, 1986"
WHEN = "a prefix of short vectors, or over many ranks: fewest rounds, at lg(n) times the bytes of a chain."


@cost(lg(n), lg(n) * S)
def scan(ranks: int) -> Schedule:
    """Returns the inclusive prefix: a copy of the own chunk, then lg(n) rounds."""
    own = Transfers.of(0, 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    rows = Transfers.concatenate([own, *_doubling(ranks, 0)])
    return Schedule("hillis_steele", "scan", ranks, 1, (Block(rows),), scratch=int(ranks > 2))


@cost(1 + lg(n - 1), (1 + lg(n - 1)) * S)
def exscan(ranks: int) -> Schedule:
    """Returns the exclusive prefix: a shift by one rank, then the scan over ranks 1 to n-1."""
    after = np.arange(ranks - 1)
    shift = Transfers.of(after, after + 1, source_buffer=Buffer.INPUT, target_buffer=_place(after, 0))
    blocks = (Block(Transfers.concatenate([shift, *_doubling(ranks - 1, 1)])),) if ranks > 1 else ()
    return Schedule("hillis_steele", "exscan", ranks, 1, blocks, scratch=int(ranks > 2))


def _doubling(count: int, first: int) -> list[Transfers]:
    """The scan of `count` ranks from `first` on, rounds counted from `first`; in round 0 all data is still in the
    input."""
    parts = []
    for k in range((count - 1).bit_length()):
        rank = np.arange(1 << k, count)
        lower, into = rank - (1 << k), _place(rank, k + 1)
        for source, reduce in ((lower, False), (rank, True)):  # stored, and the rank's own added behind it
            place = _place(source, k) if k + first else Buffer.INPUT
            ends = {"source_buffer": place, "target_buffer": into}
            parts.append(Transfers.of(first + source, first + rank, reduce=reduce, round=k + first, **ends))
    return parts


def _place(rank: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The buffer of the partial results before doubling k: never the next one's target, at the end the output."""
    left = np.maximum(np.frexp(rank)[1] - k, 0)
    return np.where(left % 2, Buffer.SCRATCH, Buffer.OUTPUT)
