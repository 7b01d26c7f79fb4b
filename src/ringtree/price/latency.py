"""The least time for a message of no bytes to reach all ranks that must have it."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from ringtree.topology import Topology

MOST_SEARCHES = 64
"""The most ranks among all of which the farthest two are searched."""


def least_s(topology: Topology, root: int | None = None, *, towards: bool = False, upwards: bool = False) -> float:
    """Seconds from the root to the last of the others (to the root, where `towards`); from every rank to every other
    one without a root, to those of higher numbers alone where `upwards`. The longer of two bounds: the latency between
    the farthest ranks, and the time of a broadcast in which each informed rank sends a message every `message_s`
    (LogP's broadcast; Karp and others 1993)."""
    n = topology.ranks
    if n == 1:
        return 0.0
    own_s = topology.message_s
    roots = [root] if root is not None else range(n if n <= MOST_SEARCHES else 1)
    farthest_s = max(float(_distances_s(topology, r, towards)[r * upwards : n].max()) for r in roots)
    return max(farthest_s + 2 * own_s, _broadcast_s(n, _nearest_s(topology) + 2 * own_s, own_s))


def to_the_next_s(topology: Topology) -> float:
    """Seconds from the rank farthest from the next one to that one; of many ranks, a few are examined."""
    n = topology.ranks
    some = range(n if n <= MOST_SEARCHES else MOST_SEARCHES // 4)
    return max(float(_distances_s(topology, r, False)[(r + 1) % n]) for r in some) + 2 * topology.message_s


def _distances_s(topology: Topology, root: int, towards: bool) -> NDArray[np.float64]:
    """Seconds from the root to every node, through any others; `towards`: from the nodes to the root."""
    there = topology.bandwidth_Bps > 0
    near, far = (topology.target, topology.source) if towards else (topology.source, topology.target)
    near, far, latency_s = near[there], far[there], topology.latency_s[there]
    distance_s = np.full(len(topology.nodes), np.inf)
    distance_s[root] = 0.0
    while True:
        closer_s = distance_s.copy()
        np.minimum.at(closer_s, far, distance_s[near] + latency_s)
        if np.array_equal(closer_s, distance_s):
            return distance_s
        distance_s = closer_s


def _nearest_s(topology: Topology) -> float:
    """A lower bound of the latency between any two ranks: a link between ranks, else a link out of a rank and one into
    one."""
    there = topology.bandwidth_Bps > 0
    out, into = ((end < topology.ranks) & there for end in (topology.source, topology.target))
    latency_s = topology.latency_s
    least = [float(latency_s[which].min(initial=np.inf)) for which in (out & into, out & ~into, into & ~out)]
    return min(least[0], least[1] + least[2])


def _broadcast_s(ranks: int, hop_s: float, pause_s: float) -> float:
    """Returns the seconds until the last of `ranks` is informed: a message takes `hop_s`, an informed rank sends one
    every `pause_s`."""
    if pause_s == 0 or ranks == 2:
        return hop_s
    ready, known = {(0, 0): 1}, 1  # by (hops, pauses): the number of ranks that can send then
    when = [(0.0, (0, 0))]
    while True:
        now_s, at = heapq.heappop(when)
        count = ready.pop(at)
        known += count
        if known >= ranks:
            return now_s + hop_s
        for later in ((at[0] + 1, at[1]), (at[0], at[1] + 1)):
            if later not in ready:
                heapq.heappush(when, (later[0] * hop_s + later[1] * pause_s, later))
            ready[later] = ready.get(later, 0) + count
