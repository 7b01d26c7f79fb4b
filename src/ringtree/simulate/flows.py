"""Messages on links, many at once: the way each takes, and whether all have room there at full rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.ranges import places
from ringtree.topology import Topology

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SPARE = 1e-6
"""Of a link's bandwidth: what rounding may seem to ask for more than there is."""


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """For each of many pairs its links, link[first[k]:first[k+1]], the least of their bandwidths and the sum of their
    latencies."""

    first: Ints
    link: Ints
    bandwidth_Bps: Floats
    latency_s: Floats


def routes(topology: Topology, source: Ints, target: Ints) -> Routes | None:
    """Those of the topology for the pairs; None where one has none."""
    found = topology.routes(source, target)
    if found is None:
        return None
    first, link = found
    if not len(source):
        return Routes(first, link, np.zeros(0), np.zeros(0))
    latency_s = np.add.reduceat(topology.latency_s[link], first[:-1])
    return Routes(first, link, np.minimum.reduceat(topology.bandwidth_Bps[link], first[:-1]), latency_s)


def spread(way: Routes, pair: Ints) -> tuple[Ints, Ints]:
    """Messages by the links that they take: (message, link), `pair` being each message's."""
    count = np.diff(way.first)[pair]
    message = np.repeat(np.arange(len(pair)), count)
    return message, way.link[np.repeat(way.first[pair], count) + places(count)]


def shared(link: Ints, port: Ints, links: int) -> NDArray[np.bool_]:
    """Which messages meet those of another port on that link; one port's follow one another by themselves."""
    low, high = np.full(links, np.iinfo(np.int64).max), np.full(links, -1)
    np.minimum.at(low, link, port)
    np.maximum.at(high, link, port)
    found: NDArray[np.bool_] = (low < high)[link]
    return found


def have_room(link: Ints, start_s: Floats, end_s: Floats, rate_Bps: Floats, topology: Topology) -> bool:
    """Whether no link is ever asked for more than it has."""
    links = np.concatenate([link, link])
    change = np.concatenate([rate_Bps, -rate_Bps])
    order = np.lexsort((change, np.concatenate([start_s, end_s]), links))
    asked = np.cumsum(change[order])
    return bool(np.all(asked <= topology.bandwidth_Bps[links[order]] * (1 + SPARE)))


def busy(link: Ints, start_s: Floats, end_s: Floats, links: int) -> Floats:
    """Seconds in which something is on each link."""
    order = np.lexsort((start_s, link))
    link, start, end = link[order], start_s[order], end_s[order]
    opens = np.diff(link, prepend=-1) != 0
    by_end = np.argsort(end)
    place = np.empty(len(link), dtype=np.int64)
    place[by_end] = np.arange(len(link))
    latest = np.maximum.accumulate(np.cumsum(opens) * len(link) + place) % max(len(link), 1)  # of this link so far
    before = np.where(opens, -np.inf, np.roll(end[by_end[latest]], 1))
    alone = np.maximum(end - np.maximum(start, before), 0)
    total: Floats = np.bincount(link, alone, links).astype(np.float64)
    return total
