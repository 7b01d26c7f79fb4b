"""A topology as a graph of whole capacities, with alike nodes merged into kinds.

Nodes are alike when they have equal capacity to and from each kind of node: an equitable partition, found by colour
refinement. A flow from kind to kind may be spread evenly over a kind's nodes, so the maximum flow is the same in the
graph of kinds (Grohe, Kersting, Mladenov, Selman: Dimension Reduction via Colour
Refinement, 2014), and 100,000 ranks of alike machines are a handful of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, lcm

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.ranges import elements
from ringtree.price.maxflow import FlowNetwork
from ringtree.topology import Topology

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Side = NDArray[np.bool_]
UNBOUNDED = Fraction(-1)
ENDLESS_BPS = 10**400
"""Capacity of a link of infinite bandwidth: above any float, so its bytes take exactly 0 s in floats."""
MOST_COUNTED = 1 << 20
ODD = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, slots=True, eq=False)
class Incidence:
    """Each node's links: order[first[node] : first[node + 1]]."""

    order: Ints
    first: Ints

    @staticmethod
    def of(ends: Ints, nodes: int) -> Incidence:
        """Returns the links of every node, given each link's node in `ends`."""
        order = np.argsort(ends, kind="stable")
        return Incidence(order, np.searchsorted(ends[order], np.arange(nodes + 1)))

    def links(self, nodes: Ints) -> tuple[Ints, Ints]:
        """The links of these nodes, node after node, and each link's node as a position in `nodes`."""
        which, at = elements(self.first[nodes], self.first[nodes + 1] - self.first[nodes])
        return self.order[at], which


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Links by the numbers of their ends and of their capacity among `capacities` (bytes a second, exact). `leaving`
    and `entering`: each node's links. `kind`: nodes of one number are alike."""

    name: str
    ranks: int
    source: Ints
    target: Ints
    which: Ints
    capacities: tuple[Fraction, ...]
    leaving: Incidence
    entering: Incidence
    kind: Ints

    @staticmethod
    def of(topology: Topology) -> Graph:
        """The graph without failed links."""
        there = np.flatnonzero(topology.bandwidth_Bps > 0)
        levels, which = np.unique(topology.bandwidth_Bps[there], return_inverse=True)
        source, target = topology.source[there].astype(np.int64), topology.target[there].astype(np.int64)
        nodes = len(topology.nodes)
        incidences = Incidence.of(source, nodes), Incidence.of(target, nodes)
        capacities = tuple(Fraction(ENDLESS_BPS if level == inf else level) for level in levels.tolist())
        kind = np.zeros(nodes, np.int64)
        graph = Graph(topology.name, topology.ranks, source, target, which.reshape(-1), capacities, *incidences, kind)
        return graph._split([range(topology.ranks)], range(nodes))

    @property
    def nodes(self) -> int:
        """Number of nodes: ranks and switches."""
        return len(self.kind)

    def reversed(self) -> Graph:
        """The graph with every link reversed."""
        return replace(self, source=self.target, target=self.source, leaving=self.entering, entering=self.leaving)

    def apart(self, *groups: Iterable[int]) -> Graph:
        """The graph whose kinds are split so that no kind has nodes of two groups."""
        return self._split(groups, [node for group in groups for node in group])

    def _split(self, groups: Iterable[Iterable[int]], moved: Iterable[int]) -> Graph:
        """The graph with kinds split until no kind has nodes of two groups and alike nodes have alike neighbours.
        `moved`: the nodes whose links split kinds first; then, of each kind that was split, all parts but one (Hopcroft
        1971), since the whole of it splits no kind any more."""
        kind = self.kind.copy()
        for group in groups:
            nodes = np.array(list(group), np.int64)
            kind[nodes] = kind.max() + 1 + np.unique(kind[nodes], return_inverse=True)[1].reshape(-1)
        changed = np.array(list(moved), np.int64)
        while len(changed):
            changed = self._round(kind, changed)
        return replace(self, kind=np.unique(kind, return_inverse=True)[1].reshape(-1))

    def _round(self, kind: Ints, changed: Ints) -> Ints:
        """Splits kinds by their nodes' capacity to and from the nodes `changed`; returns the nodes of new kinds."""
        nodes, seen = list[Ints](), list[Hashes]()
        for salt, near, far in ((1, self.leaving, self.target), (2, self.entering, self.source)):
            link, which = near.links(changed)
            label = kind[changed][which] * (2 * len(self.capacities)) + 2 * self.which[link] + salt
            nodes.append(far[link])
            seen.append(mixed(label.astype(np.uint64) + ODD))
        ends = np.concatenate(nodes)
        if not len(ends):
            return ends
        order = np.argsort(ends, kind="stable")
        starts = np.flatnonzero(np.diff(ends[order], prepend=-1) != 0)
        met, sums = ends[order][starts], np.add.reduceat(np.concatenate(seen)[order], starts)
        order = np.lexsort((sums, kind[met]))
        met, sums = met[order], sums[order]
        old = kind[met]
        opens = (np.diff(old, prepend=-1) != 0) | (np.diff(sums, prepend=sums[:1]) != 0)
        part = np.cumsum(opens) - 1
        size, of = np.bincount(part), old[opens]
        unmet = np.bincount(kind, minlength=int(kind.max()) + 1)[of] - np.bincount(of, size)[of].astype(np.int64)
        first = np.diff(of, prepend=-1) != 0
        new = ~first | (unmet > 0)  # the part without such links, or else the first part, keeps its number
        number = np.where(new, kind.max() + np.cumsum(new), of)
        kind[met] = number[part]
        found: Ints = met[new[part]]
        return found

    def representatives(self) -> list[int]:
        """A rank of each kind."""
        first: list[int] = np.unique(self.kind[: self.ranks], return_index=True)[1].tolist()
        return first

    def ranks_of_kind(self) -> list[int]:
        """The number of ranks of each kind."""
        counts: list[int] = np.bincount(self.kind[: self.ranks], minlength=int(self.kind.max()) + 1).tolist()
        return counts

    def parts_without(self, kind: int) -> list[list[int]]:
        """The ranks of each part into which the graph falls without the nodes of a kind; no part without ranks."""
        stays = (self.kind[self.source] != kind) & (self.kind[self.target] != kind)
        a, b = self.source[stays], self.target[stays]
        first, before = np.arange(self.nodes), np.full(self.nodes, -1)
        while np.any(first != before):
            before = first.copy()
            np.minimum.at(first, a, before[b])
            np.minimum.at(first, b, before[a])
            first = first[first]
        ranks = np.argsort(first[: self.ranks], kind="stable")
        starts = np.flatnonzero(np.diff(first[ranks], prepend=-1))
        return [part.tolist() for part in np.split(ranks, starts[1:])]

    def between_kinds(self) -> dict[tuple[int, int], Fraction]:
        """Capacity from each kind to each other one, all nodes together."""
        kinds, levels = int(self.kind.max()) + 1, len(self.capacities)
        keys = (self.kind[self.source] * kinds + self.kind[self.target]) * levels + self.which
        if kinds * kinds * levels <= MOST_COUNTED:
            count = np.bincount(keys, minlength=kinds * kinds * levels)
            keys = np.flatnonzero(count)
            count = count[keys]
        else:
            keys, count = np.unique(keys, return_counts=True)
        found: dict[tuple[int, int], Fraction] = {}
        for key, n in zip(keys.tolist(), count.tolist(), strict=True):
            ends, which = divmod(key, levels)
            pair = divmod(ends, kinds)
            if pair[0] != pair[1]:
                found[pair] = found.get(pair, Fraction(0)) + n * self.capacities[which]
        return found


def flow(graph: Graph, supply: Mapping[int, Fraction], demand: Mapping[int, Fraction]) -> tuple[Fraction, Side]:
    """The maximum flow from kinds to kinds, within each kind's total supply or demand (UNBOUNDED: any), and the nodes
    on the targets' side of a narrowest cut."""
    between = graph.between_kinds()
    kinds = int(graph.kind.max()) + 1
    scale = lcm(*(c.denominator for c in (*between.values(), *supply.values(), *demand.values())))
    source, target = kinds, kinds + 1
    edges = [(a, b, int(c * scale)) for (a, b), c in between.items()]
    most = sum(c for _, _, c in edges) + 1
    edges += [(source, k, most if c is UNBOUNDED else int(c * scale)) for k, c in supply.items()]
    edges += [(k, target, most if c is UNBOUNDED else int(c * scale)) for k, c in demand.items()]
    total, side = FlowNetwork(kinds + 2, edges).flow(source, target)
    return Fraction(total, scale), np.isin(graph.kind, list(side))


def mixed(values: Hashes) -> Hashes:
    """Hashes of the values over all 64 bits (splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * MIX
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
