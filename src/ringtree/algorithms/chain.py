"""Chain: every rank passes on to the next one only. Cut into m pieces, the last one has all in n-2+m.

So a long vector takes hardly more than its own time, however many ranks there are. Option: `pieces` m, by default 1,
for the depth depends on the size: whoever knows that cuts (transform.pipeline).

broadcast: n-1 rounds, S bytes, pipelines
reduce: n-1 rounds, S bytes, pipelines

When: long vectors over few ranks, or where every rank is near to the next one only; cut into pieces.

Source: Pjesivac-Grbovic and others: Performance analysis of MPI collective operations, 2007
"""

from __future__ import annotations

import numpy as np

from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import pipeline


def broadcast(ranks: int, root: int, *, pieces: int = 1) -> Schedule:
    """From the root to the rank before it."""
    return _chain("broadcast", ranks, root, root, pieces)


def reduce(ranks: int, root: int, *, pieces: int = 1) -> Schedule:
    """From the rank after the root to the root."""
    return _chain("reduce", ranks, root + 1, root, pieces)


def _chain(collective: str, ranks: int, first: int, root: int | None, pieces: int) -> Schedule:
    hop = np.arange(ranks - 1)
    rows = Transfers.of((first + hop) % ranks, (first + hop + 1) % ranks, reduce=collective != "broadcast", round=hop)
    return pipeline(Schedule("chain", collective, ranks, 1, (Block(rows),) if ranks > 1 else (), root), pieces)
