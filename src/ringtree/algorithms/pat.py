"""PAT, parallel aggregated trees: a binomial tree per block, farthest first, and all trees at once.

Bruck's rounds in the opposite order: what goes far is one block, what goes to the neighbour is half of all. So a
network whose far links are the slow ones carries little on them. Any number of ranks. Here every round aggregates all
its trees; with bounded buffers they come in parts.

all_gather: lg(n) rounds, (n-1)/n*S bytes
reduce_scatter: lg(n) rounds, (n-1)/n*S bytes

When: short to medium blocks over many ranks where far links are the slow ones, or buffers are bounded.

Source: Jeaugey: PAT: a new algorithm for all-gather and reduce-scatter operations at scale, 2025
"""

from __future__ import annotations

import numpy as np

from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse


def all_gather(ranks: int) -> Schedule:
    """A rank that is `behind` ranks after a block's owner passes it on, if that is a multiple of twice the distance."""
    rank, parts, distance = np.arange(ranks), list[Transfers](), 1 << (ranks - 1).bit_length()
    while distance > 1:
        behind = np.arange(0, ranks - distance // 2, distance)
        distance //= 2
        source, before = (x.reshape(-1) for x in np.meshgrid(rank, behind, indexing="ij"))
        parts.append(Transfers.of(source, (source + distance) % ranks, (source - before) % ranks, round=len(parts)))
    blocks = (Block(Transfers.concatenate(parts)),) if parts else ()
    return Schedule("pat", "all_gather", ranks, ranks, blocks)


def reduce_scatter(ranks: int) -> Schedule:
    return reverse(all_gather(ranks))
