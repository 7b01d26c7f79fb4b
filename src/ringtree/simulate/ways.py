"""Which way the messages of each lane take: the links of its route, and the port by which it enters them."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.ranges import places
from ringtree.topology import Topology

Ints = NDArray[np.int64]
NONE = -1


class Ways:
    """By lane: `port` (NONE where there is no route), `latency_s`, `most` (the least bandwidth of its links) and
    `routes`. Links are numbered anew, without those that no lane takes: `used` are the topology's numbers, `bandwidth`
    is theirs. The links of lane k are link[first[k] : first[k + 1]]."""

    def __init__(self, topology: Topology, source: Ints, target: Ints, job: Ints) -> None:
        self.first, links, lost = _routes(topology, source, target)
        self.used, self.link = np.unique(links, return_inverse=True)
        self.bandwidth = topology.bandwidth_Bps[self.used]
        edges, link = self.first.tolist(), self.link.tolist()
        self.routes = [tuple(link[a:b]) for a, b in pairwise(edges)]
        self.latency_s, self.most = np.zeros(len(source)), np.full(len(source), inf)
        some = np.flatnonzero(np.diff(self.first))
        entry = np.full(len(source), NONE)
        if len(some):
            starts = self.first[some]
            self.latency_s[some] = np.add.reduceat(topology.latency_s[links], starts)
            self.most[some] = np.minimum.reduceat(topology.bandwidth_Bps[links], starts)
            entry[some] = self.link[starts]
        keys, port = np.unique(np.stack([source, job, entry], axis=1), axis=0, return_inverse=True)
        self.ports = len(keys)
        self.port: list[int] = np.where(lost, NONE, port.reshape(-1)).tolist()

    def spread(self, lane: Ints) -> tuple[Ints, Ints]:
        """The links of many lanes: (place in `lane`, link)."""
        count = self.first[lane + 1] - self.first[lane]
        at = np.repeat(np.arange(len(lane)), count)
        return at, self.link[np.repeat(self.first[lane], count) + places(count)]


def _routes(topology: Topology, source: Ints, target: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """(first, link) as the topology has them, and which pairs have no route."""
    known = topology.routes(source, target)
    if known is not None:
        return *known, np.zeros(len(source), np.bool_)
    found = [_route(topology, *ends) for ends in zip(source.tolist(), target.tolist(), strict=True)]
    first = np.concatenate([[0], np.cumsum([len(route or ()) for route in found])])
    links = np.array([link for route in found for link in route or ()], dtype=np.int64)
    return first, links, np.array([route is None for route in found])


def _route(topology: Topology, source: int, target: int) -> tuple[int, ...] | None:
    try:
        return topology.route(source, target)
    except ValueError:
        return None
