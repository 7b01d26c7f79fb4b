"""Locality tree: binomial trees between groups of ranks first, then inside each group, as near as possible.

A subtree per group: as many rounds as a binomial tree over all or one more, but each group is entered or left once
only, where a plain binomial tree may cross between them many times. Options: `group` (a divisor
of n, for groups of consecutive ranks), by default hierarchical's; or `distances`, a symmetric matrix of numbers between
the ranks: then ranks at the least distance from each other are a group, groups at the next one a group of groups, ….
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms import hierarchical
from ringtree.algorithms.cost import S, cost, lg
from ringtree.algorithms.hierarchical import g, h
from ringtree.algorithms.trees import binomial
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse
from ringtree.transform.rows import by_round, later

SOURCE = "Kielmann and others: MagPIe: MPI's collective communication operations for clustered wide area systems, 1999"
WHEN = "short vectors over hosts or sockets where each message between them is expensive."

Matrix = Sequence[Sequence[float]] | NDArray[np.float64]


@cost(2 * (lg(g) + lg(h)), (lg(g) + lg(h)) * S)
def all_reduce(ranks: int, *, group: int | None = None, distances: Matrix | None = None) -> Schedule:
    """Returns a reduce to rank 0, then a broadcast from it. `distances`: [n, n], in any unit."""
    down = broadcast(ranks, 0, group=group, distances=distances)
    return reverse(down).then(down, "all_reduce")


@cost(lg(g) + lg(h), (lg(g) + lg(h)) * S)
def broadcast(ranks: int, root: int, *, group: int | None = None, distances: Matrix | None = None) -> Schedule:
    """Between the ranks that have the root's index in their group, with distances the first ranks; then inside."""
    if distances is None:
        tree = hierarchical.broadcast(ranks, root, group=group, inner="binomial", outer="binomial")
        return replace(tree, name="locality_tree")
    if group is not None:
        raise ValueError("locality_tree: has a group and distances; expected one of them")
    rows, round, levels = list[Transfers](), 0, _levels(ranks, distances)
    for whole, part in zip(levels[:0:-1], levels[-2::-1], strict=True):
        heads = np.where(part == part[root], root, part)  # a group's head is its first rank, or the root
        trees = [np.unique(heads[whole == w]) for w in np.unique(whole)]
        for names in trees:
            order = np.append(names[names == root], names[names != root])
            hops = binomial.broadcast(len(order), 0).expand()
            rows.append(later(replace(hops, source=order[hops.source], target=order[hops.target]), round))
        round += (max(map(len, trees)) - 1).bit_length()
    blocks = (Block(by_round(rows)),) if ranks > 1 else ()
    return Schedule("locality_tree", "broadcast", ranks, 1, blocks, root)


@cost(lg(g) + lg(h), S)
def reduce(ranks: int, root: int, *, group: int | None = None, distances: Matrix | None = None) -> Schedule:
    """Returns the broadcast in reverse: sums end at `root`. `distances`: [n, n], in any unit."""
    return reverse(broadcast(ranks, root, group=group, distances=distances))


def _levels(ranks: int, distances: Matrix) -> list[NDArray[np.int64]]:
    """The first rank of each rank's group: alone, then with those at the least distance, …, then with all."""
    apart = np.asarray(distances, dtype=np.float64)
    if apart.shape != (ranks, ranks) or not np.array_equal(apart, apart.T):
        raise ValueError(f"locality_tree: distances are {apart.shape}; expected a symmetric matrix over {ranks} ranks")
    levels = [np.arange(ranks)]
    for distance in np.unique(apart):
        label = levels[-1].copy()
        for one, other in np.argwhere(np.triu(apart == distance, 1)):
            if label[one] != label[other]:
                label[np.isin(label, label[[one, other]])] = min(label[one], label[other])
        levels += [label] if np.any(label != levels[-1]) else []
    return levels
