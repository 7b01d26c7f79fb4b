"""Dissemination: in round k every rank sends a token to the rank 2**k ahead, for all ranks whose tokens it has.

The token counts as S bytes; its content is irrelevant, and a rank may be counted twice.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, lg, n
from ringtree.ir.schedule import Block, Schedule, Transfers

SOURCE = "Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, 1988"
WHEN = "always: no barrier over messages from one to one has fewer rounds."


@cost(lg(n), lg(n) * S)
def barrier(ranks: int) -> Schedule:
    """Returns lg(n) rounds of tokens; rank r sends to r + 2**k in round k."""
    rounds = (ranks - 1).bit_length()
    rank = np.tile(np.arange(ranks), rounds)
    round = np.repeat(np.arange(rounds), ranks)
    rows = Transfers.of(rank, (rank + (1 << round)) % ranks, reduce=True, round=round)
    return Schedule("dissemination", "barrier", ranks, 1, (Block(rows),) if rounds else ())
