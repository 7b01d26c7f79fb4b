"""Chain: every rank sends to the next rank only. In m pieces, the last arrives after n-2+m rounds.

So a long vector takes hardly more than its own time, for any number of ranks. Option: `pieces` m, by default 1: the
best number depends on the size, so the caller that has the size cuts (transform.pipeline).
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform import pipeline
from ringtree.transform.rows import by_round

SOURCE = "Pjesivac-Grbovic and others: Performance analysis of MPI collective operations, 2007"
WHEN = "long vectors over few ranks, or where every rank is near to the next one only; cut into pieces."


@cost(n - 1, S, pipelines=True)
def broadcast(ranks: int, root: int, *, pieces: int = 1) -> Schedule:
    """The chain from the root to the rank before it."""
    return _chain("broadcast", ranks, root, root, pieces)


@cost(n - 1, S, pipelines=True)
def reduce(ranks: int, root: int, *, pieces: int = 1) -> Schedule:
    """The chain from the rank after the root to the root."""
    return _chain("reduce", ranks, root + 1, root, pieces)


@cost(n - 1, S, pipelines=True)
def scan(ranks: int, *, pieces: int = 1) -> Schedule:
    """The sum from the previous rank, with the own input added behind it."""
    hop, out = np.arange(ranks - 1), Buffer.OUTPUT
    first = Transfers.of(0, 0, source_buffer=Buffer.INPUT, target_buffer=out)
    got = Transfers.of(hop, hop + 1, round=hop, source_buffer=np.where(hop, out, Buffer.INPUT), target_buffer=out)
    own = Transfers.of(hop + 1, hop + 1, reduce=True, round=hop, source_buffer=Buffer.INPUT, target_buffer=out)
    return pipeline(Schedule("chain", "scan", ranks, 1, (Block(by_round([first, got, own])),)), pieces)


@cost(2 * n - 3, S, pipelines=True)
def exscan(ranks: int, *, pieces: int = 1) -> Schedule:
    """The sum from the previous rank; in the next round a rank adds its own input in scratch, and sends that sum."""
    hop, aside = np.arange(ranks - 1), Buffer.SCRATCH
    parts = [
        Transfers.of(
            hop, hop + 1, round=2 * hop, source_buffer=np.where(hop, aside, Buffer.INPUT), target_buffer=Buffer.OUTPUT
        )
    ]
    for buffer in (Buffer.OUTPUT, Buffer.INPUT):
        parts.append(
            Transfers.of(
                hop[1:],
                hop[1:],
                reduce=buffer is Buffer.INPUT,
                round=2 * hop[1:] - 1,
                source_buffer=buffer,
                target_buffer=aside,
            )
        )
    blocks = (Block(by_round(parts)),) if ranks > 1 else ()
    return pipeline(Schedule("chain", "exscan", ranks, 1, blocks, scratch=1), pieces)


def _chain(collective: str, ranks: int, first: int, root: int, pieces: int) -> Schedule:
    hop = np.arange(ranks - 1)
    rows = Transfers.of((first + hop) % ranks, (first + hop + 1) % ranks, reduce=collective != "broadcast", round=hop)
    return pipeline(Schedule("chain", collective, ranks, 1, (Block(rows),) if ranks > 1 else (), root), pieces)
