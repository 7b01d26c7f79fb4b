"""A topology as a graph of capacities in whole numbers, nodes that are alike put together.

Nodes are alike when they have as much to and from each kind of node as one another: an equitable partition, found by
colour refinement. What flows from kind to kind may be taken to be spread evenly over a kind's nodes, so the most that
can flow is the same in the graph of kinds (Grohe, Kersting, Mladenov, Selman: Dimension Reduction via Colour
Refinement, 2014), and 100,000 ranks of alike machines are a handful of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from ringtree.price.maxflow import Network
from ringtree.topology import Topology

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Side = NDArray[np.bool_]
UNBOUNDED = Fraction(-1)
ODD = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Links by the numbers of their ends and of their capacity among `capacities` (bytes a second, exact). `kind`:
    nodes of one number are alike."""

    name: str
    ranks: int
    nodes: int
    source: Ints
    target: Ints
    which: Ints
    capacities: tuple[Fraction, ...]
    kind: Ints

    @staticmethod
    def of(topology: Topology) -> Graph:
        """Without the links that have failed."""
        there = np.flatnonzero(topology.bandwidth_Bps > 0)
        levels, which = np.unique(topology.bandwidth_Bps[there], return_inverse=True)
        graph = Graph(
            topology.name,
            topology.ranks,
            len(topology.nodes),
            topology.source[there].astype(np.int64),
            topology.target[there].astype(np.int64),
            which.reshape(-1),
            tuple(map(Fraction, levels.tolist())),
            (np.arange(len(topology.nodes)) >= topology.ranks).astype(np.int64),
        )
        return graph.refined()

    def reversed(self) -> Graph:
        """Every link the other way round."""
        return replace(self, source=self.target, target=self.source)

    def apart(self, *groups: Iterable[int]) -> Graph:
        """With the nodes of each group of no other's kind."""
        kind = self.kind.copy()
        for n, group in enumerate(groups):
            kind[list(group)] = self.nodes * (n + 1) + kind[list(group)]
        return replace(self, kind=kind).refined()

    def refined(self) -> Graph:
        """With kinds so fine that alike nodes have alike neighbours."""
        sides = [(near, far, np.argsort(near, kind="stable")) for near, far in self._ends()]
        count, kind = 0, self.kind.astype(np.uint64)
        while True:
            found, place = np.unique(kind, return_inverse=True)
            place = place.reshape(-1)
            if len(found) in (count, self.nodes):
                return replace(self, kind=place.astype(np.int64))
            count = len(found)
            own = _mixed(place.astype(np.uint64) + ODD)
            kind = own
            for near, far, order in sides:
                seen = _mixed(own[far[order]] + self.which[order].astype(np.uint64) * MIX)
                kind = _mixed(kind + _sums(near[order], seen, self.nodes))

    def _ends(self) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
        return (self.target, self.source), (self.source, self.target)

    def representatives(self) -> list[int]:
        """A rank of each kind."""
        first: list[int] = np.unique(self.kind[: self.ranks], return_index=True)[1].tolist()
        return first

    def ranks_of_kind(self) -> list[int]:
        """How many ranks each kind has."""
        counts: list[int] = np.bincount(self.kind[: self.ranks], minlength=int(self.kind.max()) + 1).tolist()
        return counts

    def between_kinds(self) -> dict[tuple[int, int], Fraction]:
        """What can flow from each kind to each other one, all nodes together."""
        kinds, levels = int(self.kind.max()) + 1, len(self.capacities)
        keys, count = np.unique(
            (self.kind[self.source] * kinds + self.kind[self.target]) * levels + self.which, return_counts=True
        )
        found: dict[tuple[int, int], Fraction] = {}
        for key, n in zip(keys.tolist(), count.tolist(), strict=True):
            ends, which = divmod(key, levels)
            pair = divmod(ends, kinds)
            if pair[0] != pair[1]:
                found[pair] = found.get(pair, Fraction(0)) + n * self.capacities[which]
        return found

    def entering(self, side: NDArray[np.bool_]) -> Ints:
        """The links from outside a set of nodes into it."""
        return np.flatnonzero(side[self.target] & ~side[self.source])


def flow(graph: Graph, supply: Mapping[int, Fraction], demand: Mapping[int, Fraction]) -> tuple[Fraction, Side]:
    """The most that can flow from kinds to kinds, each with no more than it has or takes in all (UNBOUNDED: any), and
    the nodes on the takers' side of a narrowest cut."""
    between = graph.between_kinds()
    kinds = int(graph.kind.max()) + 1
    scale = lcm(*(c.denominator for c in (*between.values(), *supply.values(), *demand.values())))
    source, target = kinds, kinds + 1
    edges = [(a, b, int(c * scale)) for (a, b), c in between.items()]
    most = sum(c for _, _, c in edges) + 1
    edges += [(source, k, most if c is UNBOUNDED else int(c * scale)) for k, c in supply.items()]
    edges += [(k, target, most if c is UNBOUNDED else int(c * scale)) for k, c in demand.items()]
    total, side = Network(kinds + 2, edges).flow(source, target)
    return Fraction(total, scale), np.isin(graph.kind, list(side))


def _mixed(values: Hashes) -> Hashes:
    """Scattered over all 64 bits (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * MIX
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _sums(group: Ints, values: Hashes, groups: int) -> Hashes:
    """The sum of each group's values, modulo 2**64; `group` is sorted."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    edges = np.searchsorted(group, np.arange(groups + 1))
    found: Hashes = total[edges[1:]] - total[edges[:-1]]
    return found
