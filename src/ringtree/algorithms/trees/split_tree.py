"""Split tree: a chain inside each group of ranks, two binary trees between the groups, each for half of the vector.

NCCL's tree: sums go up the chain to a group's first rank, which sends them to the second rank of the group above, so
that no rank has more than two below it in a tree. The trees are double_tree's, over groups. Option: `group` (a divisor
of n; ranks are numbered group by group), by default hierarchical's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms import hierarchical
from ringtree.algorithms.cost import S, at_most, cost, lg
from ringtree.algorithms.hierarchical import g, h
from ringtree.algorithms.ranges import backwards
from ringtree.algorithms.trees import double_tree
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform.rows import by_round, fuse

SOURCE = "Jeaugey: Massively scale your deep learning training with NCCL 2.4, 2019"
WHEN = "medium to long vectors over many hosts; pipelined."

Ranks = NDArray[np.int64]


@cost(2 * (g - 1 + lg(h) * (1 + (g > 1))), at_most(3 * S), pipelines=True)
def all_reduce(ranks: int, *, group: int | None = None) -> Schedule:
    """Returns chains inside groups and two trees between them, 2 chunks. ValueError where `group` does not divide n."""
    size = hierarchical.default_group(ranks) if group is None else group
    if size < 1 or ranks % size:
        raise ValueError(f"split_tree: groups of {size} do not divide {ranks} ranks; expected a divisor of {ranks}")
    hosts = np.arange(ranks // size)
    second = hosts[::-1] if len(hosts) % 2 == 0 else (hosts + 1) % len(hosts)  # mirror or shift, as double_tree's
    down = by_round([_down(_parents(order, size), chunk) for chunk, order in enumerate((hosts, second))])
    blocks = fuse((Block(backwards(down)), Block(down)))  # one block, so that up and down overlap when pipelined
    return Schedule("split_tree", "all_reduce", ranks, 2, blocks)


def _parents(order: Ranks, size: int) -> Ranks:
    """Each rank's parent: the one before it in its group; the first's is the group above's second. `order`: the
    group at each position of the tree."""
    rank = np.arange(len(order) * size)
    above = np.empty_like(order)
    above[order] = order[double_tree.parents(len(order))]
    up = np.where(rank % size, rank - 1, above[rank // size] * size + (size > 1))
    return np.where(rank == order[0] * size, rank, up)


def _down(parent: Ranks, chunk: int) -> Transfers:
    """Rows from the root, which is its own parent, down; a level is a round."""
    depth, above = np.zeros_like(parent), np.arange(len(parent))
    while np.any(parent[above] != above):
        depth += parent[above] != above
        above = parent[above]
    child = np.argsort(depth, kind="stable")[1:]
    return Transfers.of(parent[child], child, chunk, round=depth[child] - 1)
