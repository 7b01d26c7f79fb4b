"""Bruck: in round k every rank sends to the rank 2**k away, for any number of ranks. Fewest rounds.

all_gather: a rank sends all blocks that it has, in the last round those that its target lacks. all_to_all: a block for
the rank i ahead makes the hops 1, 2, 4, … whose sum is i. So it is sent several times, which pays while latency
dominates. Each block is a message of its own: sizes may differ by (source, target) pair, a message is a range of
adjacent pairs, and the blocks of a round that come from one rank go to ranks 2**(k+1) apart. With one size for all,
packing them by local copies would make lg(n) messages a rank of n/2*lg(n).
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, at_most, cost, lg, n
from ringtree.algorithms.ranges import wrapped
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

SOURCE = (
    "Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport "
    "message-passing systems, 1997"
)
WHEN = "short blocks over many ranks, any number of them: fewest rounds."


@cost(lg(n), (n - 1) / n * S)
def all_gather(ranks: int) -> Schedule:
    """Round k: the blocks from its own on to the rank 2**k before it."""
    rank, rounds = np.arange(ranks), range((ranks - 1).bit_length())
    parts = [
        Transfers.of(rank, (rank - (1 << k)) % ranks, rank, count=min(1 << k, ranks - (1 << k)), round=k)
        for k in rounds
    ]
    blocks = (Block(wrapped(Transfers.concatenate(parts), ranks)),) if parts else ()
    return Schedule("bruck", "all_gather", ranks, ranks, blocks)


@cost(lg(n), at_most(lg(n) / 2 * S))
def all_to_all(ranks: int) -> Schedule:
    """A block for the rank i ahead is in scratch chunk i between its first and its last hop."""
    away = np.arange(1, ranks)
    local = np.arange(ranks)
    parts = [Transfers.of(local, local, local, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)]
    for k in range((ranks - 1).bit_length()):
        i, rank = (x.reshape(-1) for x in np.meshgrid(away[away >> k & 1 == 1], local, indexing="ij"))
        target, done = (rank + (1 << k)) % ranks, i & (1 << k) - 1
        first, last = done == 0, i >> k == 1
        parts.append(
            Transfers.of(
                rank,
                target,
                np.where(first, (rank + i) % ranks, i),
                to=np.where(last, (target - i) % ranks, i),
                round=k,
                source_buffer=np.where(first, Buffer.INPUT, Buffer.SCRATCH),
                target_buffer=np.where(last, Buffer.OUTPUT, Buffer.SCRATCH),
            )
        )
    return Schedule("bruck", "all_to_all", ranks, ranks, (Block(Transfers.concatenate(parts)),), scratch=ranks)
