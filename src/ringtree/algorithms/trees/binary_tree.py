"""Binary tree, the naive one: rank k's children are 2k+1 and 2k+2, counted from the root.

Pipelined, a rank in the middle sends each byte to two children while it receives one from above: half the bandwidth of
its link, which the double tree repairs. Even so its rounds grow with log n only.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, lg, minimum, n
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse
from ringtree.transform.rows import fuse

SOURCE = "Pjesivac-Grbovic and others: Performance analysis of MPI collective operations, 2007"
WHEN = "as the baseline that shows what double_tree repairs; else take that."


@cost(2 * (lg(n + 1) - 1), (minimum(n - 1, 2) + (n > 4)) * S, pipelines=True)
def all_reduce(ranks: int) -> Schedule:
    """Returns a reduce to rank 0 and a broadcast from it in one block, 1 chunk, so that both overlap when pipelined."""
    down = broadcast(ranks, 0)
    blocks = fuse(reverse(down).blocks + down.blocks)  # one block, so that up and down overlap when pipelined
    return Schedule("binary_tree", "all_reduce", ranks, 1, blocks)


@cost(lg(n + 1) - 1, minimum(n - 1, 2) * S, pipelines=True)
def broadcast(ranks: int, root: int) -> Schedule:
    """Returns the schedule down the tree from `root`, one level per round, 1 chunk."""
    child = np.arange(1, ranks)
    depth = np.frexp(child + 1)[1] - 2  # a level is a round
    rows = Transfers.of((root + (child - 1) // 2) % ranks, (root + child) % ranks, round=depth)
    return Schedule("binary_tree", "broadcast", ranks, 1, (Block(rows),) if ranks > 1 else (), root)


@cost(lg(n + 1) - 1, S, pipelines=True)
def reduce(ranks: int, root: int) -> Schedule:
    """Returns the broadcast in reverse: leaves first, sums end at `root`."""
    return reverse(broadcast(ranks, root))
