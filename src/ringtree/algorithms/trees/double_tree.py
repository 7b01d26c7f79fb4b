"""Double binary tree: two binary trees, each for half of the vector; no rank passes data on in both.

Latency grows with log n and, pipelined, links stay busy both ways. The first tree is in-order: odd positions are
leaves. The second is the first by mirror or by shift, so that even positions are the leaves. No rank has more than
two children in all. all_reduce takes the trees that NCCL builds between nodes; if n is odd their shift puts rank 0
above one child in both. For broadcast and reduce the root stands above both trees, which the other ranks form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms.cost import S, at_most, cost, lg, n
from ringtree.algorithms.ranges import backwards
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse
from ringtree.transform.rows import fuse

SOURCE = "Sanders, Speck, Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, 2009"
WHEN = "long vectors over many ranks, where a ring's latency of n hops is too much; pipelined."

Ranks = NDArray[np.int64]


@cost(2 * lg(n), at_most(2 * S), pipelines=True)
def all_reduce(ranks: int) -> Schedule:
    """Up both trees, then down: by mirror for even n, by shift for odd n, as NCCL's ncclGetDtree."""
    position = np.arange(ranks)
    second = ranks - 1 - position if ranks % 2 == 0 else (position + 1) % ranks
    down = _down(ranks, position, second)
    blocks = fuse((Block(backwards(down)), Block(down)))  # one block, so that up and down overlap when pipelined
    return Schedule("double_tree", "all_reduce", ranks, 2, blocks)


@cost(lg(n), S, pipelines=True)
def broadcast(ranks: int, root: int) -> Schedule:
    """The second tree mirrors the other ranks for odd n, and shifts them for even n; any root by rotation."""
    position = np.arange(ranks)
    others = position[1:]
    second = np.append(0, ranks - others if ranks % 2 else others % (ranks - 1) + 1)
    down = _down(ranks, (position + root) % ranks, (second + root) % ranks)
    return Schedule("double_tree", "broadcast", ranks, 2, (Block(down),) if ranks > 1 else (), root)


@cost(lg(n), S, pipelines=True)
def reduce(ranks: int, root: int) -> Schedule:
    """Returns the broadcast in reverse: sums end at `root`, 2 chunks, one per tree."""
    return reverse(broadcast(ranks, root))


def _down(ranks: int, first: Ranks, second: Ranks) -> Transfers:
    """Rows from position 0 of both trees down, chunk 0 in the first and chunk 1 in the second; a level is a round."""
    parent = parents(ranks)
    child: Ranks = np.arange(1, ranks)
    depth, above = np.zeros(ranks, dtype=np.int64), np.arange(ranks)
    while np.any(above):
        depth += above > 0
        above = parent[above]
    order = np.argsort(depth[1:], kind="stable")
    child = child[order]
    names = np.stack([first, second])
    return Transfers.of(
        names[:, parent[child]].T.reshape(-1),
        names[:, child].T.reshape(-1),
        np.tile([0, 1], ranks - 1),
        round=np.repeat(depth[child] - 1, 2),
    )


def parents(ranks: int) -> Ranks:
    """Each position's parent in the in-order tree; position 0, the root, is its own and has one child."""
    position = np.arange(ranks, dtype=np.int64)
    bit = position & -position
    up = (position ^ bit) | (bit << 1)
    return np.where(up < ranks, up, position ^ bit)
