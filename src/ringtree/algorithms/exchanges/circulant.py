"""Circulant graph: every rank sends to the rank half the remaining blocks away, rounded up. Fewest rounds and bytes.

For any n the equal of halving and doubling for powers of two, without folding ranks into others. The ranges that a rank
sends are neighbours on the circle of blocks.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, lg, n
from ringtree.algorithms.ranges import wrapped
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse

SOURCE = "Träff: Optimal, non-pipelined reduce-scatter and allreduce algorithms, 2024"
WHEN = "medium vectors over any number of ranks, as halving_doubling over powers of two."


@cost(2 * lg(n), 2 * (n - 1) / n * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns a reduce_scatter, then an all_gather, n chunks."""
    return reduce_scatter(ranks).then(all_gather(ranks), "all_reduce")


@cost(lg(n), (n - 1) / n * S)
def reduce_scatter(ranks: int) -> Schedule:
    """With s blocks left, a rank sends the last s//2 of them, counted from its own, to the rank s - s//2 ahead."""
    rank, left, parts = np.arange(ranks), ranks, list[Transfers]()
    while left > 1:
        half = left // 2
        left -= half
        target = (rank + left) % ranks
        parts.append(Transfers.of(rank, target, target, count=half, reduce=True, round=len(parts)))
    blocks = (Block(wrapped(Transfers.concatenate(parts), ranks)),) if parts else ()
    return Schedule("circulant", "reduce_scatter", ranks, ranks, blocks)


@cost(lg(n), (n - 1) / n * S)
def all_gather(ranks: int) -> Schedule:
    """Returns the reduce_scatter in reverse, n chunks."""
    return reverse(reduce_scatter(ranks))
