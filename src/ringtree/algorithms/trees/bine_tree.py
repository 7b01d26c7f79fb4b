"""Bine tree: a binomial tree whose hops are 1, 1, 3, 5, 11, … ranks long, farthest first, to the one side or the other.

A hop is a third shorter than the binomial tree's, so that shared links carry less. Even ranks send to one side, odd
ranks to the other, as in Swing, counted from the root. If n is no power of two, the ranks beyond hang on as leaves.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, lg, n
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse

SOURCE = "De Sensi and others: Bine trees: enhancing collective operations by optimizing communication locality, 2025"
WHEN = "as binomial, where ranks near in number are near in the network."


@cost(2 * lg(n), lg(n) * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns a reduce to rank 0, then a broadcast from it, 1 chunk."""
    return reduce(ranks, 0).then(broadcast(ranks, 0), "all_reduce")


@cost(lg(n), lg(n) * S)
def broadcast(ranks: int, root: int) -> Schedule:
    """Returns the schedule from `root`, farthest hops first, 1 chunk."""
    steps, has, parts = ranks.bit_length() - 1, np.zeros(1, dtype=np.int64), list[Transfers]()
    for step in range(steps):
        distance = (1 - (-2) ** (steps - step)) // 3
        target = (has + np.where(has % 2, -distance, distance)) % (1 << steps)
        parts.append(Transfers.of((has + root) % ranks, (target + root) % ranks, round=step))
        has = np.append(has, target)
    beyond = np.arange(1 << steps, ranks)
    parts.append(Transfers.of((beyond - (1 << steps) + root) % ranks, (beyond + root) % ranks, round=steps))
    blocks = (Block(Transfers.concatenate(parts)),) if ranks > 1 else ()
    return Schedule("bine_tree", "broadcast", ranks, 1, blocks, root)


@cost(lg(n), S)
def reduce(ranks: int, root: int) -> Schedule:
    """Returns the broadcast in reverse: nearest hops first, sums end at `root`."""
    return reverse(broadcast(ranks, root))
