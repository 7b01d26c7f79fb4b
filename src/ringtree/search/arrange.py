"""Orders of the ranks for any schedule, a tree's above all, and distances to build a tree by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree import price
from ringtree.ir.schedule import Schedule
from ringtree.search.order import order
from ringtree.search.roads import Where, topology_of
from ringtree.topology.graph import Topology
from ringtree.transform import relabel

FEW = 16
"""Of so many ranks any two are exchanged to see what that gives; of more, whole orders are tried alone."""
MOST_PRICED = 400


def arrange(schedule: Schedule, where: Where, nbytes: int) -> tuple[int, ...]:
    """The order for `relabel` under which `price.seconds` is least, of those tried: the ranks' own, the ring's, both
    backwards, and of few ranks what exchanges of two make of the best. Never worse than the ranks' own. A root stays
    who it is. Cost: a price each, at most 400."""
    topology = topology_of(where)
    ranks = schedule.ranks
    if ranks != topology.ranks:
        raise ValueError(f"{schedule.name} has {ranks} ranks and {topology.name} {topology.ranks}; expected as many")
    plain, ring = tuple(range(ranks)), order(topology)
    tried: dict[tuple[int, ...], float] = {}
    for one in (plain, ring, plain[::-1], ring[::-1]):
        _price(schedule, topology, nbytes, _rooted(one, schedule.root), tried)
    best = min(tried, key=tried.__getitem__)
    while ranks <= FEW and (closer := _exchanged(schedule, topology, nbytes, best, tried)) != best:
        best = closer
    return best


def distances(where: Where, nbytes: int = 1) -> NDArray[np.float64]:
    """Seconds that `nbytes` take from one rank to another alone, the slower way of both: ranks by ranks, for
    `locality_tree`. Time and memory: O(ranks^2)."""
    topology = topology_of(where)
    source, target = np.divmod(np.arange(topology.ranks**2, dtype=np.int64), topology.ranks)
    apart = source != target
    found = topology.routes(source[apart], target[apart])
    if found is None:
        raise ValueError(f"{topology.name}: two of its ranks have no route; expected one between any two")
    first, links = found
    seconds = np.zeros((topology.ranks, topology.ranks))
    if len(links):
        slowest = np.maximum.reduceat(1 / topology.bandwidth_Bps[links], first[:-1])
        seconds[source[apart], target[apart]] = (
            np.add.reduceat(topology.latency_s[links], first[:-1]) + nbytes * slowest
        )
    return np.maximum(seconds, seconds.T)


def _rooted(one: tuple[int, ...], root: int | None) -> tuple[int, ...]:
    """The order turned so that the root keeps its place."""
    if root is None:
        return one
    turn = one.index(root) - root
    return tuple(one[(r + turn) % len(one)] for r in range(len(one)))


def _exchanged(
    schedule: Schedule, topology: Topology, nbytes: int, best: tuple[int, ...], tried: dict[tuple[int, ...], float]
) -> tuple[int, ...]:
    """The first order better than `best` that exchanges two ranks; `best` where there is none."""
    for a in range(len(best)):
        for b in range(a + 1, len(best)):
            if schedule.root in (a, b) or len(tried) >= MOST_PRICED:
                continue
            other = list(best)
            other[a], other[b] = other[b], other[a]
            if _price(schedule, topology, nbytes, tuple(other), tried) < tried[best] * (1 - 1e-9):
                return tuple(other)
    return best


def _price(
    schedule: Schedule, topology: Topology, nbytes: int, one: tuple[int, ...], tried: dict[tuple[int, ...], float]
) -> float:
    if one not in tried:
        tried[one] = price.seconds(relabel(schedule, one), topology, nbytes)
    return tried[one]
