"""The routes between ranks of a topology, and the load of ring orders on their links."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Machine
from ringtree.topology.graph import Topology

Where = Machine | Cluster | Topology


def topology_of(where: Where) -> Topology:
    """Returns the topology of a machine (a cluster of one node), of a cluster, or the topology itself. TypeError: of
    anything else."""
    if isinstance(where, Machine):
        where = Cluster(where)
    if isinstance(where, Cluster):
        return where.topology()
    if not isinstance(where, Topology):
        expected = "a Machine (ringtree.machines.catalogue.machine('dgx-h100')), a Cluster or a Topology"
        raise TypeError(f"where is {where!r:.60}; expected {expected}")
    return where


class Routes:
    """Routes between some ranks of a topology, numbered by their positions 0..n-1.

    `paths[a][b]`: the links from a to b. Memory and time: O(n^2 * links of a route)."""

    def __init__(self, topology: Topology, ranks: Sequence[int]) -> None:
        self.count = len(ranks)
        source, target = np.repeat(np.array(ranks), len(ranks)), np.tile(np.array(ranks), len(ranks))
        apart = source != target
        found = topology.routes(source[apart].astype(np.int64), target[apart].astype(np.int64))
        if found is None:
            raise ValueError(f"{topology.name}: two of its ranks have no route; expected one between any two")
        first, links = found
        used, numbers = np.unique(links, return_inverse=True)
        paths = [tuple(numbers[a:b].tolist()) for a, b in pairwise(first.tolist())]
        between = iter(paths)
        self.paths = [[() if a == b else next(between) for b in range(self.count)] for a in range(self.count)]
        self.byte_s = (1 / topology.bandwidth_Bps[used]).tolist()
        self.latency_s = topology.latency_s[used].tolist()

    def links(self) -> int:
        """Returns the number of links on any route."""
        return len(self.byte_s)

    def hop_s(self, a: int, b: int) -> tuple[float, float]:
        """Returns (seconds per byte on the slowest link, latency in seconds) from position a to b."""
        path = self.paths[a][b]
        return max((self.byte_s[link] for link in path), default=0.0), sum(self.latency_s[link] for link in path)

    def cost(self, order: Sequence[int], before: Sequence[int] | None = None) -> tuple[float, float, float]:
        """Returns the cost of a ring in that order, compared element by element: seconds per byte on the busiest link;
        latency of an all_reduce (twice round the ring less two hops); sum of the squares of all links' seconds, which
        spreads load. With `before`, the messages already on each link, spreading comes before latency."""
        loads = list(before) if before is not None else [0] * self.links()
        hops_s = []
        for a, b in zip(order, (*order[1:], order[0]), strict=True):
            for link in self.paths[a][b]:
                loads[link] += 1
            hops_s.append(sum([self.latency_s[link] for link in self.paths[a][b]]))
        latency_s = 2 * sum(hops_s) - min(a + b for a, b in zip(hops_s, (*hops_s[1:], hops_s[0]), strict=True))
        busy = [n * s for n, s in zip(loads, self.byte_s, strict=True)]
        spread = sum(s * s for s in busy)
        return (max(busy, default=0.0), *((latency_s, spread) if before is None else (spread, latency_s)))

    def least_s(self) -> float:
        """Returns a lower bound of the seconds per byte for any number of rings: a byte leaves the rank with the
        narrowest links through all of them together."""
        leaving = ({path[0] for path in paths if path} for paths in self.paths)
        return max((1 / sum(1 / self.byte_s[link] for link in links) for links in leaving if links), default=0.0)

    def load(self, order: Sequence[int], loads: list[int]) -> None:
        """Adds a ring's messages to `loads`, the messages on each link."""
        for a, b in zip(order, (*order[1:], order[0]), strict=True):
            for link in self.paths[a][b]:
                loads[link] += 1
