"""The routes between ranks of a topology, and what orders of the ranks load their links with."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Machine
from ringtree.topology.graph import Topology

Where = Machine | Cluster | Topology


def topology_of(where: Where) -> Topology:
    """A machine is a cluster of one."""
    if isinstance(where, Machine):
        where = Cluster(where)
    return where.topology() if isinstance(where, Cluster) else where


class Roads:
    """Between some ranks of a topology, here by their places 0..n-1. Memory and time: O(n^2 links of a route)."""

    def __init__(self, topology: Topology, ranks: Sequence[int]) -> None:
        self.count = len(ranks)
        source, target = np.repeat(np.array(ranks), len(ranks)), np.tile(np.array(ranks), len(ranks))
        apart = source != target
        found = topology.routes(source[apart].astype(np.int64), target[apart].astype(np.int64))
        if found is None:
            raise ValueError(f"{topology.name}: two of its ranks have no route; expected one between any two")
        first, links = found
        used, numbers = np.unique(links, return_inverse=True)
        ways = [tuple(numbers[a:b].tolist()) for a, b in pairwise(first.tolist())]
        between = iter(ways)
        self.ways = [[() if a == b else next(between) for b in range(self.count)] for a in range(self.count)]
        self.byte_s = (1 / topology.bandwidth_Bps[used]).tolist()
        self.latency_s = topology.latency_s[used].tolist()

    def links(self) -> int:
        """How many links lie on some route."""
        return len(self.byte_s)

    def hop_s(self, a: int, b: int) -> tuple[float, float]:
        """(seconds a byte on the slowest link, latency) from one place to another."""
        way = self.ways[a][b]
        return max((self.byte_s[link] for link in way), default=0.0), sum(self.latency_s[link] for link in way)

    def cost(self, order: Sequence[int], before: Sequence[int] | None = None) -> tuple[float, float, float]:
        """Of a ring in that order: the seconds a byte on the busiest link, then the latency of twice round it but for
        two hops (an all_reduce's), then the squares of all links' seconds added up, so that load is spread. With
        `before` messages on each link already, spreading comes first."""
        loads = list(before) if before is not None else [0] * self.links()
        hops_s = []
        for a, b in zip(order, (*order[1:], order[0]), strict=True):
            for link in self.ways[a][b]:
                loads[link] += 1
            hops_s.append(sum([self.latency_s[link] for link in self.ways[a][b]]))
        latency_s = 2 * sum(hops_s) - min(a + b for a, b in zip(hops_s, (*hops_s[1:], hops_s[0]), strict=True))
        busy = [n * s for n, s in zip(loads, self.byte_s, strict=True)]
        spread = sum(s * s for s in busy)
        return (max(busy, default=0.0), *((latency_s, spread) if before is None else (spread, latency_s)))

    def least_s(self) -> float:
        """What a byte takes at least, however many rings it is shared out to: to leave the rank with the narrowest
        links, all of them together."""
        leaving = ({way[0] for way in ways if way} for ways in self.ways)
        return max((1 / sum(1 / self.byte_s[link] for link in links) for links in leaving if links), default=0.0)

    def load(self, order: Sequence[int], loads: list[int]) -> None:
        """Adds a ring's messages to those on each link."""
        for a, b in zip(order, (*order[1:], order[0]), strict=True):
            for link in self.ways[a][b]:
                loads[link] += 1
