"""Ring orders of a topology: near ranks follow one another, each host is visited once. Input of `transform.relabel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral

from ringtree.search.ring_orders import RingOrder, ring_order
from ringtree.search.routes import Routes, Where, topology_of
from ringtree.topology.graph import Topology

MAX_SEARCHED = 128
"""Most ranks or hosts that are searched together; above this, their own order is kept."""
MAX_RINGS = 16
ROUNDING = 1 + 1e-9


def order(where: Where) -> tuple[int, ...]:
    """Returns the ranks in ring order, [ranks]: the ranks of a host are consecutive, the load of the busiest link is
    least, then the load of all links; the ranks' own order where no other is better. Up to 8 ranks are searched
    exactly.

    Hosts with the same number of ranks are ordered alike: only the first one is searched, and links between hosts are
    judged on the first few hosts."""
    return rings(where, 1)[0]


def rings(where: Where, most: int = MAX_RINGS) -> tuple[tuple[int, ...], ...]:
    """Returns ring orders for concurrent rings, each with an even share of the data: the number of rings, at most
    `most`, that minimizes the load of the busiest link. Each ring is the best one given the load of the rings before
    it; with direct links between GPUs, rings share no link until all links are used. ValueError for `most` < 1,
    TypeError for one that is no whole number."""
    if not isinstance(most, Integral) or isinstance(most, bool):
        raise TypeError(f"most is {most!r:.60}; expected a whole number of rings")
    if most < 1:
        raise ValueError(f"{most} rings; expected at least 1")
    topology = topology_of(where)
    hosts = _hosts(topology)
    if len(hosts) > 1:
        return _through_hosts(topology, hosts, most)
    if topology.ranks > MAX_SEARCHED or topology.ranks <= 2:
        return (tuple(range(topology.ranks)),)
    routes = Routes(topology, range(topology.ranks))
    return tuple(_side_by_side(routes, most, lambda loads: ring_order(routes, loads)))


def _side_by_side(routes: Routes, most: int, best: Callable[[list[int]], RingOrder]) -> list[RingOrder]:
    """Returns the first rings of `best`, which takes the load of the rings before: as many as take the least time with
    an even share of the data on each."""
    loads, found, shares_s = [0] * routes.links(), list[RingOrder](), list[float]()
    for count in range(1, most + 1):
        found.append(best(loads))
        routes.load(found[-1], loads)
        shares_s.append(max(n * s for n, s in zip(loads, routes.byte_s, strict=True)) / count)
        if shares_s[-1] <= routes.least_s() * ROUNDING:
            break
    return found[: next(n for n, share_s in enumerate(shares_s, 1) if share_s <= min(shares_s) * ROUNDING)]


def _through_hosts(topology: Topology, hosts: list[list[int]], most: int) -> tuple[RingOrder, ...]:
    """Returns rings through one host after the other. The order inside a host may start at any of its ranks; every
    second host may be reversed, so that a rank is followed by the rank with the same position, on the same rail."""
    around = [hosts[h] for h in _around(topology, hosts)]
    inside = {len(h): _inside(topology, h) for h in reversed(hosts)}
    few = _few(around)
    sample = [rank for host in few for rank in host]
    routes, position = Routes(topology, sample), {rank: n for n, rank in enumerate(sample)}
    entries = [(start, back) for start in range(len(around[0])) for back in (False, True)]
    plain = tuple(range(topology.ranks))
    full = {
        tuple(position[r] for r in _ring(few, inside, *entry)): _ring(around, inside, *entry)
        for entry in reversed(entries)
    }
    full |= {tuple(position[r] for r in plain if r in position): plain}
    known = list(full)[::-1]

    def least(loads: list[int]) -> RingOrder:
        before = loads if any(loads) else None  # of the first ring latency comes before spreading
        return min(known, key=lambda ring: routes.cost(ring, before))

    return tuple(full[ring] for ring in _side_by_side(routes, most, least))


def _ring(hosts: Sequence[Sequence[int]], inside: dict[int, RingOrder], start: int, back: bool) -> RingOrder:
    """Returns the ring through all hosts that enters each at position `start`, every second one reversed if `back`."""
    ring: list[int] = []
    for n, host in enumerate(hosts):
        ring_inside = inside[len(host)]
        at = start % len(ring_inside)
        turned = ring_inside[at:] + ring_inside[:at]
        ring += (host[p] for p in (turned[::-1] if back and n % 2 else turned))
    return tuple(ring)


def _around(topology: Topology, hosts: list[list[int]]) -> RingOrder:
    """Returns the hosts in ring order, near hosts next to each other."""
    if len(hosts) > MAX_SEARCHED:
        return tuple(range(len(hosts)))
    return ring_order(Routes(topology, [host[0] for host in hosts]))


def _inside(topology: Topology, host: Sequence[int]) -> RingOrder:
    return ring_order(Routes(topology, host)) if len(host) <= MAX_SEARCHED else tuple(range(len(host)))


def _few(hosts: list[list[int]]) -> list[list[int]]:
    """Returns the first hosts, as many as can be searched together: all, or an even number, at least two."""
    ranks = 0
    for count, host in enumerate(hosts):
        ranks += len(host)
        if count >= 2 and ranks > MAX_SEARCHED:
            return hosts[: count - count % 2]
    return hosts


def _hosts(topology: Topology) -> list[list[int]]:
    """Returns the ranks of each host; hosts in the order of their first ranks."""
    hosts: dict[int, list[int]] = {}
    for rank, host in enumerate(topology.hosts.tolist()):
        hosts.setdefault(host, []).append(rank)
    return list(hosts.values())
