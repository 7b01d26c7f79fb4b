"""Routes of many pairs of nodes at once, on topologies too large to search from every node.

The same rule as `Topology.route`: the fewest links, then the least latency. Both ends are searched towards each other,
all pairs in step, so that the searches meet at a node with many links and do not pass it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.ranges import elements
from ringtree.price.graph import ODD, mixed
from ringtree.topology import Topology
from ringtree.topology.cluster_topology import ClusterTopology

Ints = NDArray[np.int64]
FEW_SOURCES = 32
"""The number of sources up to which the topology's own search is used."""
NONE = -1


def routes(topology: Topology, source: Ints, target: Ints) -> tuple[Ints, Ints]:
    """(first, link): the links of pair k are link[first[k] : first[k + 1]]. ValueError for a pair that has none."""
    if isinstance(topology, ClusterTopology):  # it has tables of them
        known = topology.routes(source, target)
        if known is None:
            raise ValueError(_lost(topology, source, target))
        return known
    if not len(topology.bandwidth_Bps) and len(source):
        raise ValueError(_lost(topology, source, target))
    direct = topology.find(source, target)
    direct = np.where((direct >= 0) & (topology.bandwidth_Bps[direct] > 0), direct, NONE)
    far = np.flatnonzero(direct < 0)
    if not len(far):
        return np.arange(len(source) + 1), direct
    if len(set(source[far].tolist())) <= FEW_SOURCES:
        known = topology.routes(source, target)
        if known is None:
            raise ValueError(_lost(topology, source, target))
        return known
    searched = _Search(topology, source[far], target[far]).run()
    if np.any(lost := searched[:, 0] == NONE):
        raise ValueError(_lost(topology, source[far[lost]], target[far[lost]]))
    columns = np.full((len(source), searched.shape[1]), NONE)
    columns[:, 0] = direct
    columns[far] = searched
    taken = columns >= 0
    return np.concatenate([[0], np.cumsum(taken.sum(axis=1))]), columns[taken]


def _lost(topology: Topology, source: Ints, target: Ints) -> str:
    """The message about a pair that has no route."""
    for a, b in zip(source.tolist(), target.tolist(), strict=True):
        try:
            topology.route(a, b)
        except ValueError as error:
            return str(error)
    raise AssertionError("every pair has a route")


@dataclass(slots=True)
class _Side:
    """The state of the search from one end: a row for each (pair, node) of the last level, sorted by pair, and for
    each level the link and the row of the level before by which it was reached."""

    first: Ints
    order: Ints
    ends: NDArray[np.integer[Any]]
    pair: Ints
    node: Ints
    latency_s: NDArray[np.float64]
    links: list[Ints]
    parents: list[Ints]

    @staticmethod
    def of(topology: Topology, nodes: Ints, near: NDArray[np.int32], ends: NDArray[np.int32]) -> _Side:
        usable = np.flatnonzero(topology.bandwidth_Bps > 0)
        order = _unlike(near[usable], ends[usable], topology.latency_s[usable], len(topology.nodes))
        order = usable[order]
        first = np.searchsorted(near[order], np.arange(len(topology.nodes) + 1))
        return _Side(first, order, ends, np.arange(len(nodes)), nodes, np.zeros(len(nodes)), [], [])

    def degree(self) -> int:
        """An upper bound of the rows of the next level."""
        return int((self.first[self.node + 1] - self.first[self.node]).sum())

    def grow(self, topology: Topology) -> None:
        """Extends the search by one link; of several routes to a node the one of the least latency stays."""
        row, at = elements(self.first[self.node], self.first[self.node + 1] - self.first[self.node])
        link = self.order[at]
        latency_s = self.latency_s[row] + topology.latency_s[link]
        pair, node = self.pair[row], self.ends[link].astype(np.int64)
        best = np.lexsort((latency_s, node, pair))
        kept = best[(np.diff(pair[best], prepend=-1) != 0) | (np.diff(node[best], prepend=-1) != 0)]
        self.pair, self.node, self.latency_s = pair[kept], node[kept], latency_s[kept]
        self.links.append(link[kept])
        self.parents.append(row[kept])

    def keep(self, pairs: NDArray[np.bool_]) -> None:
        """Keeps those pairs alone."""
        rows = pairs[self.pair]
        self.pair, self.node, self.latency_s = self.pair[rows], self.node[rows], self.latency_s[rows]
        if self.links:
            self.links[-1], self.parents[-1] = self.links[-1][rows], self.parents[-1][rows]

    def back(self, row: Ints) -> list[Ints]:
        """The links from those rows back to the start of the search."""
        found = []
        for links, parents in zip(reversed(self.links), reversed(self.parents), strict=True):
            found.append(links[row])
            row = parents[row]
        return found


def _unlike(near: NDArray[np.int32], ends: NDArray[np.int32], latency_s: NDArray[np.float64], nodes: int) -> Ints:
    """The links that a search needs, by their near end: of those to alike nodes but one. From alike nodes, as ranks
    below a switch are, it comes to the same nodes at the same latencies."""
    onward = mixed((ends.astype(np.uint64) + ODD) ^ mixed(latency_s.view(np.uint64)))
    by_near = np.argsort(near, kind="stable")
    starts = np.flatnonzero(np.diff(near[by_near], prepend=-1))
    alike = np.zeros(nodes, np.uint64)
    alike[near[by_near][starts]] = np.add.reduceat(onward[by_near], starts) if len(starts) else 0
    order = np.lexsort((ends, latency_s, alike[ends], near))
    columns = (near[order], alike[ends[order]], latency_s[order])
    opens = np.ones(len(order), np.bool_)
    opens[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    kept = order[opens]
    return kept[np.lexsort((kept, near[kept]))]


class _Search:
    def __init__(self, topology: Topology, source: Ints, target: Ints) -> None:
        self.topology, self.pairs = topology, len(source)
        self.out = _Side.of(topology, source, topology.source, topology.target)
        self.into = _Side.of(topology, target, topology.target, topology.source)
        self.links = np.full((self.pairs, 1), NONE)

    def run(self) -> Ints:
        """[pairs, positions]: the links in order, NONE after the last one; NONE alone where there is no route."""
        left = np.ones(self.pairs, np.bool_)
        for _ in range(len(self.topology.nodes)):
            left[self._meet()] = False
            if not left.any():
                break
            self.out.keep(left)
            self.into.keep(left)
            side = min(self.out, self.into, key=_Side.degree)
            if not side.degree():
                break
            side.grow(self.topology)
        return self.links

    def _meet(self) -> Ints:
        """Joins the two sides by one more link where there is one; the pairs that are done."""
        out, into = self.out, self.into
        first = np.searchsorted(into.pair, np.arange(self.pairs + 1))
        a, b = elements(first[out.pair], np.diff(first)[out.pair])
        link = self.topology.find(out.node[a], into.node[b])
        there = link >= 0
        there[there] = self.topology.bandwidth_Bps[link[there]] > 0
        a, b, link = a[there], b[there], link[there]
        latency_s = out.latency_s[a] + self.topology.latency_s[link] + into.latency_s[b]
        best = np.lexsort((latency_s, out.pair[a]))
        best = best[np.diff(out.pair[a][best], prepend=-1) != 0]
        pair: Ints = out.pair[a[best]]
        row = [*out.back(a[best])[::-1], link[best], *into.back(b[best])]
        wider = len(row) - self.links.shape[1]
        if wider > 0 and len(pair):
            self.links = np.pad(self.links, ((0, 0), (0, wider)), constant_values=NONE)
        if len(pair):
            self.links[pair, : len(row)] = np.stack(row, axis=1)
        return pair
