"""Dissemination: in round k every rank tells the rank 2**k further on that all it has heard of are here.

The token counts as S bytes; what it carries does not matter, and hearing of a rank twice does no harm.

barrier: lg(n) rounds, lg(n)*S bytes

When: always: no barrier over messages from one to one has fewer rounds.

Source: Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, 1988
"""

from __future__ import annotations

import numpy as np

from ringtree.ir.schedule import Block, Schedule, Transfers


def barrier(ranks: int) -> Schedule:
    rounds = (ranks - 1).bit_length()
    rank = np.tile(np.arange(ranks), rounds)
    round = np.repeat(np.arange(rounds), ranks)
    rows = Transfers.of(rank, (rank + (1 << round)) % ranks, reduce=True, round=round)
    return Schedule("dissemination", "barrier", ranks, 1, (Block(rows),) if rounds else ())
