"""Pairwise exchange: in round k every rank sends to the rank k ahead the block for it.

The first round (k = 0) is a rank's copy to itself.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers

SOURCE = "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005"
WHEN = "long blocks: every block is sent once, and in each round every rank sends to one and receives from one."


@cost(n, (n - 1) / n * S)
def all_to_all(ranks: int) -> Schedule:
    """Returns n rounds, n chunks: rank r sends chunk r+k to rank r+k in round k."""
    rank = np.arange(ranks)
    rows = Transfers.of(rank, rank, rank, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    blocks = (Block(rows, ranks, Shift(target=1, source_chunk=1)),)
    return Schedule("pairwise", "all_to_all", ranks, ranks, blocks)
