"""Orders of the ranks in which a ring passes near links, each host once: what `transform.relabel` takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ringtree.search.roads import Roads, Where, topology_of
from ringtree.search.tours import Tour, tour
from ringtree.topology.graph import Topology

MOST_PLACES = 128
"""So many ranks, or hosts, are searched together; more are taken as they come."""
MOST_RINGS = 16
ROUNDING = 1 + 1e-9


def order(where: Where) -> tuple[int, ...]:
    """The ranks as a ring passes them: those of a host one after the other, and so that the busiest link carries least,
    then that all do; at most 8 are searched exactly. The ranks' own order where none is better.

    Hosts of as many ranks are passed alike: the first one is searched for all of them, and what leaves and enters hosts
    is judged on the first few."""
    return rings(where, 1)[0]


def rings(where: Where, most: int = MOST_RINGS) -> tuple[tuple[int, ...], ...]:
    """Orders of rings that run side by side, each on an even share of the data: as many, at most `most`, as make the
    busiest link carry least; each the best on what those before it left. Where GPUs are joined one to another, they
    share no link until all are taken."""
    if most < 1:
        raise ValueError(f"{most} rings; expected at least 1")
    topology = topology_of(where)
    hosts = _hosts(topology)
    if len(hosts) > 1:
        return _through_hosts(topology, hosts, most)
    if topology.ranks > MOST_PLACES or topology.ranks <= 2:
        return (tuple(range(topology.ranks)),)
    roads = Roads(topology, range(topology.ranks))
    return tuple(_side_by_side(roads, most, lambda loads: tour(roads, loads)))


def _side_by_side(roads: Roads, most: int, best: Callable[[list[int]], Tour]) -> list[Tour]:
    """The first of the `best` rings on what each before it loads the links with: so many that an even share of the data
    on each takes least."""
    loads, found, shares_s = [0] * roads.links(), list[Tour](), list[float]()
    for count in range(1, most + 1):
        found.append(best(loads))
        roads.load(found[-1], loads)
        shares_s.append(max(n * s for n, s in zip(loads, roads.byte_s, strict=True)) / count)
        if shares_s[-1] <= roads.least_s() * ROUNDING:
            break
    return found[: next(n for n, share_s in enumerate(shares_s, 1) if share_s <= min(shares_s) * ROUNDING)]


def _through_hosts(topology: Topology, hosts: list[list[int]], most: int) -> tuple[Tour, ...]:
    """Rings through one host after the other. A host's own way round is entered at any of its ranks; every second host
    may be passed backwards, so that a rank is followed by the one of the same place, on the same rail."""
    around = [hosts[h] for h in _around(topology, hosts)]
    inside = {len(h): _inside(topology, h) for h in reversed(hosts)}
    few = _few(around)
    sample = [rank for host in few for rank in host]
    roads, place = Roads(topology, sample), {rank: n for n, rank in enumerate(sample)}
    ways = [(start, back) for start in range(len(around[0])) for back in (False, True)]
    plain = tuple(range(topology.ranks))
    full = {tuple(place[r] for r in _ring(few, inside, *way)): _ring(around, inside, *way) for way in reversed(ways)}
    full |= {tuple(place[r] for r in plain if r in place): plain}
    known = list(full)[::-1]
    found = _side_by_side(roads, most, lambda loads: min(known, key=lambda ring: roads.cost(ring, loads)))
    return tuple(full[ring] for ring in found)


def _ring(hosts: Sequence[Sequence[int]], inside: dict[int, Tour], start: int, back: bool) -> Tour:
    ring: list[int] = []
    for n, host in enumerate(hosts):
        way = inside[len(host)]
        at = start % len(way)
        turned = way[at:] + way[:at]
        ring += (host[p] for p in (turned[::-1] if back and n % 2 else turned))
    return tuple(ring)


def _around(topology: Topology, hosts: list[list[int]]) -> Tour:
    """The hosts, near ones one after the other."""
    if len(hosts) > MOST_PLACES:
        return tuple(range(len(hosts)))
    return tour(Roads(topology, [host[0] for host in hosts]))


def _inside(topology: Topology, host: Sequence[int]) -> Tour:
    return tour(Roads(topology, host)) if len(host) <= MOST_PLACES else tuple(range(len(host)))


def _few(hosts: list[list[int]]) -> list[list[int]]:
    """All, or as many of the first as can be looked at together; an even number, at least two."""
    ranks = 0
    for count, host in enumerate(hosts):
        ranks += len(host)
        if count >= 2 and ranks > MOST_PLACES:
            return hosts[: count - count % 2]
    return hosts


def _hosts(topology: Topology) -> list[list[int]]:
    """The ranks by host, hosts as their first ranks come."""
    hosts: dict[int, list[int]] = {}
    for rank, host in enumerate(topology.hosts.tolist()):
        hosts.setdefault(host, []).append(rank)
    return list(hosts.values())
