"""The routes of messages: the links of each pair's route, and the port by which a lane enters them."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.ranges import elements
from ringtree.topology import Topology
from ringtree.topology.queues import in_queues

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class PairRoutes:
    """Routes of many pairs, each with its links, link[first[k] : first[k + 1]], their least bandwidth, the sum of their
    latencies, and the first link, NONE where the route is empty. `lost`: whether the pair has no route."""

    first: Ints
    link: Ints
    bandwidth_Bps: Floats
    latency_s: Floats
    entry: Ints
    lost: NDArray[np.bool_]

    @staticmethod
    def of(topology: Topology, source: Ints, target: Ints) -> PairRoutes:
        """Returns the routes from each source to its target, [messages] each."""
        first, link, lost = _routes(topology, source, target)
        bandwidth_Bps, latency_s = np.full(len(source), inf), np.zeros(len(source))
        entry = np.full(len(source), NONE)
        some = np.flatnonzero(np.diff(first))
        if len(some):
            bandwidth_Bps[some] = np.minimum.reduceat(topology.bandwidth_Bps[link], first[some])
            latency_s[some] = np.add.reduceat(topology.latency_s[link], first[some])
            entry[some] = link[first[some]]
        return PairRoutes(first, link, bandwidth_Bps, latency_s, entry, lost)

    def spread(self, pair: Ints) -> tuple[Ints, Ints]:
        """The links of many pairs: (position in `pair`, link)."""
        position, at = elements(self.first[pair], self.first[pair + 1] - self.first[pair])
        return position, self.link[at]


class LaneRoutes:
    """The routes of lanes: `port` by lane (NONE where there is no route), and `routes`, over the links that some lane
    takes, renumbered: `used` are the topology's numbers, `bandwidth` their bandwidths in B/s. `queued`: whether a
    lane's messages wait in the queues of links."""

    def __init__(self, topology: Topology, source: Ints, target: Ints, job: Ints) -> None:
        found = PairRoutes.of(topology, source, target)
        self.used, link = np.unique(found.link, return_inverse=True)
        self.routes = replace(found, link=link)
        self.bandwidth = topology.bandwidth_Bps[self.used]
        self.links = [tuple(link[a:b].tolist()) for a, b in pairwise(found.first.tolist())]
        keys, port = np.unique(np.stack([source, job, found.entry], axis=1), axis=0, return_inverse=True)
        self.ports = len(keys)
        self.port: list[int] = np.where(found.lost, NONE, port.reshape(-1)).tolist()
        self.queued: list[bool] = in_queues(topology, source, target, found.first, found.link).tolist()

    def scaled(self, share: float) -> LaneRoutes:
        """The routes over links of that share of their bandwidth."""
        found = copy(self)
        found.bandwidth = self.bandwidth * share
        found.routes = replace(self.routes, bandwidth_Bps=self.routes.bandwidth_Bps * share)
        return found


def _routes(topology: Topology, source: Ints, target: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """(first, link) as of `Topology.routes`, and whether each pair has no route."""
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
