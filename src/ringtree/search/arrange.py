"""Orders of the ranks for any schedule, in particular a tree, and distances between ranks for building trees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree import price
from ringtree.ir.schedule import Schedule
from ringtree.ir.units import check_byte_count
from ringtree.search.order import order
from ringtree.search.routes import Where, topology_of
from ringtree.topology.graph import Topology
from ringtree.transform import relabel

FEW = 16
"""Up to this number of ranks, every exchange of two is tried; above, only whole orders are."""
MOST_PRICED = 400


def arrange(schedule: Schedule, where: Where, nbytes: int) -> tuple[int, ...]:
    """Returns the order, [ranks], for `relabel` with the least `price.seconds` of the orders tried: the ranks' own, the
    ring's, both reversed, and for few ranks exchanges of two in the best one. Never worse than the ranks' own order.
    The root keeps its number. Cost: one `price.seconds` per order, at most 400. TypeError, ValueError: for `nbytes`
    that is no number, or below 0."""
    check_byte_count(nbytes)
    topology = topology_of(where)
    ranks = schedule.ranks
    if ranks != topology.ranks:
        raise ValueError(
            f"{schedule.name} has {ranks} ranks and {topology.name} {topology.ranks}; expected the same number"
        )
    plain, ring = tuple(range(ranks)), order(topology)
    tried: dict[tuple[int, ...], float] = {}
    for one in (plain, ring, plain[::-1], ring[::-1]):
        _price(schedule, topology, nbytes, rooted(one, schedule.root), tried)
    best = min(tried, key=tried.__getitem__)
    while ranks <= FEW and (closer := _exchanged(schedule, topology, nbytes, best, tried)) != best:
        best = closer
    return best


def distances(where: Where, nbytes: int = 1) -> NDArray[np.float64]:
    """Returns the seconds for `nbytes` between each pair of ranks without other traffic, the slower direction of both:
    [ranks, ranks], for `locality_tree`. Time and memory: O(ranks^2). TypeError, ValueError: for `nbytes` that is no
    number, or below 0."""
    check_byte_count(nbytes)
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


def rooted(one: tuple[int, ...], root: int | None) -> tuple[int, ...]:
    """The order, rotated so that the root keeps its position."""
    if root is None:
        return one
    turn = one.index(root) - root
    return tuple(one[(r + turn) % len(one)] for r in range(len(one)))


def _exchanged(
    schedule: Schedule, topology: Topology, nbytes: int, best: tuple[int, ...], tried: dict[tuple[int, ...], float]
) -> tuple[int, ...]:
    """Returns the first order better than `best` that exchanges two ranks; `best` where there is none."""
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
