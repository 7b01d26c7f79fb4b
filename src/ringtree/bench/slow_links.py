"""Slow hosts and slow pairs among measured links, by comparison with the other hosts' links."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

SLOWER = 2.0
"""A link of less than the usual bandwidth over this is slow."""
LATER, LATER_S = 3.0, 100e-6
"""A link of more than so many times the usual latency is slow, where that is also this much more."""
MOST_NAMED = 0.5
"""The part of the links above which the network has two speeds, and no link is named."""


class Slow(Enum):
    """The figure by which a link is slow."""

    SENDS = "sends"
    RECEIVES = "receives"
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class SlowLink:
    """A host all of whose links are slow (`other` is None), or the link from `host` to `other`. `value` and `usual` are
    bytes a second, or seconds of a latency."""

    slow: Slow
    host: int
    other: int | None
    value: float
    usual: float


@dataclass(frozen=True, slots=True)
class SlowLinks:
    """The named ones, hosts first. `usual_Bps`, `usual_s`: the medians of the hosts' best links. `two_speeds`: the part
    of the links that is slow, where it is too large to name them."""

    named: tuple[SlowLink, ...]
    usual_Bps: float
    usual_s: float
    hosts: int
    two_speeds: float = 0.0

    def pairs(self) -> set[tuple[int, int]]:
        """The pairs of hosts that the named ones are of, the lower host first."""
        others = [(one.host, range(self.hosts) if one.other is None else (one.other,)) for one in self.named]
        return {(min(a, b), max(a, b)) for a, many in others for b in many if a != b}


def slow_links(latency_s: NDArray[np.float64], bandwidth_Bps: NDArray[np.float64]) -> SlowLinks:
    """Finds the slow ones in [hosts, hosts], row to column, nan where nothing was measured.

    A host sends and receives as well as its best link, so that it is not blamed for a slow peer; the usual figure is
    the median of these, so that one host or one lucky link does not move it. Links of a slow host are not named
    again."""
    hosts = len(bandwidth_Bps)
    best = {
        Slow.SENDS: np.nanmax(bandwidth_Bps, axis=1),
        Slow.RECEIVES: np.nanmax(bandwidth_Bps, axis=0),
    }
    bests = np.sort(np.concatenate([*best.values()]))
    usual_Bps = float(bests[len(bests) // 2])  # of two in the middle the upper: of two hosts one may be slow
    near_s = np.nanmin(latency_s, axis=1)
    usual_s = float(np.median(near_s))
    many = hosts > 2  # of two hosts either may be the slow one
    named = [
        SlowLink(slow, host, None, float(best[slow][host]), usual_Bps)
        for slow in best
        for host in range(hosts)
        if many and best[slow][host] < usual_Bps / SLOWER
    ]
    named += [
        SlowLink(Slow.LATENCY, host, None, float(near_s[host]), usual_s)
        for host in range(hosts)
        if many and _late(near_s[host], usual_s)
    ]
    known = {(link.slow, link.host) for link in named}
    pairs = [
        SlowLink(Slow.BANDWIDTH, a, b, float(bandwidth_Bps[a, b]), usual_Bps)
        for a, b in np.argwhere(bandwidth_Bps < usual_Bps / SLOWER).tolist()
        if (Slow.SENDS, a) not in known and (Slow.RECEIVES, b) not in known
    ]
    pairs += [
        SlowLink(Slow.LATENCY, a, b, float(latency_s[a, b]), usual_s)
        for a, b in np.argwhere(np.triu(_late(latency_s, usual_s))).tolist()
        if (Slow.LATENCY, a) not in known and (Slow.LATENCY, b) not in known
    ]
    slow = len({(link.host, link.other) for link in pairs if link.slow is Slow.BANDWIDTH}) / (hosts * (hosts - 1))
    if many and slow > MOST_NAMED:
        return SlowLinks(tuple(named), usual_Bps, usual_s, hosts, slow)
    return SlowLinks((*named, *pairs), usual_Bps, usual_s, hosts)


def _late(seconds: NDArray[np.float64], usual_s: float) -> NDArray[np.bool_]:
    late: NDArray[np.bool_] = (seconds > LATER * usual_s) & (seconds > usual_s + LATER_S)
    return late
