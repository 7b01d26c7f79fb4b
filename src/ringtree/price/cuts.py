"""The narrowest cuts of a topology, lower bounds for every schedule. Exact.

A cut is given by the nodes that bytes must enter. Bytes that leave a set enter it on the graph with every link
reversed, so a collective that collects is bounded on the reversed graph.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ringtree.price.graph import UNBOUNDED, Graph, Side, flow
from ringtree.topology import Topology

MOST_RANKS = 64
"""Above this number of ranks, not every rank is examined on its own."""
MANY = 256
"""Above this number of links, the first ones determine the name of all."""
MOST_NAMED = 64
"""Links of a cut that are named one by one."""


AlikeSets = tuple[Sequence[int], int]
"""A set of ranks, and the number of sets like it."""


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """`per_byte_s`: seconds for each byte of the whole vector. `inside`: the nodes that the bytes must enter, one of
    `sets` such sets where the load is on all of them together."""

    per_byte_s: Fraction
    inside: Side
    sets: int = 1


def widest(cuts: Iterable[Cut]) -> Cut:
    """Returns the cut with the longest time; the first of equals."""
    return max(cuts, key=lambda c: c.per_byte_s)


def all_gather(graph: Graph) -> Cut:
    """The parts of the ranks outside a set must enter it: the worst of all sets (ForestColl, NSDI 2026: 1/x*). By
    Newton's method on cuts: for a rate that is too high, the cut that forbids it gives the next rate."""
    n = graph.ranks
    rate, inside = _first_rate(graph)
    for rank in graph.representatives():
        one = graph.apart([rank])
        while True:
            supply = {k: rate * count for k, count in enumerate(one.ranks_of_kind()) if count}
            total, side = flow(one, supply, {int(one.kind[rank]): UNBOUNDED})
            if total >= rate * n:
                break
            within = int(side[:n].sum())
            rate, inside = _rate(total - rate * within, n - within, graph), side
    return Cut(1 / (n * rate), inside)


def scatter(graph: Graph, root: int) -> Cut:
    """A set without the root must let in its ranks' parts. A single commodity, so the bound is reached."""
    n, one = graph.ranks, graph.apart([root])
    at_root = int(one.kind[root])
    counts = {k: count for k, count in enumerate(one.ranks_of_kind()) if count and k != at_root}
    rate, inside = _rate(_leaving(graph, root), n - 1, graph), np.arange(graph.nodes) != root
    while True:
        total, side = flow(one, {at_root: UNBOUNDED}, {k: rate * count for k, count in counts.items()})
        if total >= rate * (n - 1):
            return Cut(1 / (n * rate), inside)
        within = int(side[:n].sum())
        rate, inside = _rate(total - rate * (n - 1 - within), within, graph), side


def broadcast(graph: Graph, root: int) -> Cut:
    """The whole vector must enter every set without the root: the least of the maximum flows from it (Edmonds 1973)."""
    others = [rank for rank in graph.apart([root]).representatives() if rank != root]
    return widest(_whole(graph, [root], [rank]) for rank in others)


def neighbours(graph: Graph) -> Cut:
    """The whole vector from each rank to the next, the last to the first: the least of these flows. Of very many ranks
    the first and the last are examined."""
    n = graph.ranks
    firsts = [*range(min(n, MOST_RANKS)), n - 1]
    return widest(_whole(graph, [rank], [(rank + 1) % n]) for rank in dict.fromkeys(firsts))


def all_to_all(graph: Graph, sets: Sequence[Sequence[int]]) -> Cut:
    """The part of every pair that a set separates must cross its cut: the worst of these sets of ranks."""
    return widest(
        Cut(Fraction(len(ranks) * (graph.ranks - len(ranks)), graph.ranks) * cut.per_byte_s, cut.inside)
        for ranks in sets
        for cut in [_whole(graph, _but(graph, ranks), ranks)]
    )


def behind_switches(graph: Graph) -> list[list[int]]:
    """Sets of ranks that alike switches alone join to the others, as spines join the leaves of a network: one set of
    alike ranks. None where many switches are unlike."""
    switches = np.unique(graph.kind[graph.ranks :])
    found = dict[tuple[int, ...], list[int]]()
    for kind in switches.tolist() if len(switches) <= MOST_RANKS else ():
        for ranks in graph.parts_without(kind):
            found.setdefault(tuple(np.sort(graph.kind[ranks]).tolist()), ranks)
    return list(found.values())


def prefix(graph: Graph, firsts: Iterable[int]) -> Cut:
    """The parts of the first r ranks must reach the others, for these r."""
    n = graph.ranks
    return widest(_whole(graph, range(r), range(r, n)) for r in firsts)


def all_reduce(graph: Graph, partitions: Iterable[Sequence[AlikeSets]]) -> Cut:
    """Each partition of the ranks into k sets: every element enters one of them at least 2(k-1) times: the least
    number of one-way calls until each of k knows of all (Harary and Schwenk 1974). Switches must neither add nor
    copy."""
    nothing = Cut(Fraction(0), np.zeros(graph.nodes, np.bool_))
    return widest([nothing, *(_together(graph, sets) for sets in partitions if sum(count for _, count in sets) > 1)])


def _together(graph: Graph, sets: Sequence[AlikeSets]) -> Cut:
    """All sets' incoming links together take 2(k-1) vectors."""
    cuts = [_whole(graph, _but(graph, ranks), ranks) for ranks, _ in sets]
    k = sum(count for _, count in sets)
    total = sum((count / cut.per_byte_s for cut, (_, count) in zip(cuts, sets, strict=True)), Fraction(0))
    return Cut(2 * (k - 1) / total, widest(cuts).inside, k)


def tight_sets(graph: Graph, cut: Cut) -> list[AlikeSets]:
    """A partition of the ranks: the smallest sets as narrow as the worst for all_gather, and the other ranks one by
    one."""
    n, found, left = graph.ranks, list[set[int]](), set(range(graph.ranks))
    if n > MOST_RANKS:
        return []
    rate = 1 / (n * cut.per_byte_s)
    for rank in range(n):
        one = graph.apart([rank])
        supply = {k: rate * count for k, count in enumerate(one.ranks_of_kind()) if count}
        side = flow(one, supply, {int(one.kind[rank]): UNBOUNDED})[1]
        found.append(set(np.flatnonzero(side[:n]).tolist()))
    sets = []
    for ranks in sorted(found, key=len):
        if ranks <= left and len(ranks) < n:
            sets.append(sorted(ranks))
            left -= ranks
    return [(ranks, 1) for ranks in sets + [[rank] for rank in sorted(left)]]


def _whole(graph: Graph, sources: Iterable[int], targets: Iterable[int]) -> Cut:
    """The whole vector goes from one set of ranks to another."""
    sources, targets = list(sources), list(targets)
    parts = graph.apart(sources, targets)
    ends = [{int(k): UNBOUNDED for k in np.unique(parts.kind[ranks])} for ranks in (sources, targets)]
    total, side = flow(parts, *ends)
    return Cut(1 / _rate(total, 1, graph), side)


def _but(graph: Graph, ranks: Iterable[int]) -> list[int]:
    """All other ranks."""
    others: list[int] = np.setdiff1d(np.arange(graph.ranks), list(ranks)).tolist()
    return others


def _first_rate(graph: Graph) -> tuple[Fraction, Side]:
    """The rate at which each rank could send to the rank with the narrowest incoming links."""
    entering = {rank: _leaving(graph.reversed(), rank) for rank in graph.representatives()}
    rank = min(entering, key=entering.__getitem__)
    return _rate(entering[rank], graph.ranks - 1, graph), np.arange(graph.nodes) == rank


def _leaving(graph: Graph, rank: int) -> Fraction:
    return sum((graph.capacities[w] for w in graph.which[graph.source == rank].tolist()), Fraction(0))


def _rate(bandwidth_Bps: Fraction, share: int, graph: Graph) -> Fraction:
    if not bandwidth_Bps:
        raise ValueError(f"{graph.name}: some ranks cannot reach others; expected links that join all of them")
    return bandwidth_Bps / share


@dataclass(frozen=True, slots=True)
class CutLinks:
    """The links that a cut's bytes cross. `words`: `the 8 NIC links into host 0 (rail0 -> node0/nic0), 400 GB/s`;
    `links`: the names of the first MOST_NAMED of `count`; `bandwidth_Bps`: of all of them; `alike`: the cuts of that
    kind whose load is together."""

    words: str
    links: tuple[str, ...]
    count: int
    bandwidth_Bps: float
    alike: int


def narrow(topology: Topology, cut: Cut, *, leaves: bool = False, nics: Container[str] = ()) -> CutLinks:
    """The links of a cut, in words by the smaller side's name. `leaves`: the bytes leave the cut's nodes. `nics`: the
    name of the NICs in a node."""
    inside = ~cut.inside if leaves else cut.inside
    links = np.flatnonzero(inside[topology.target] & ~inside[topology.source] & (topology.bandwidth_Bps > 0))
    ranks = np.flatnonzero(inside[: topology.ranks])
    others = np.flatnonzero(~inside[: topology.ranks])
    what = f"{_kind(topology, links, nics)}link"
    count = f"the {len(links):,} {what}s" if len(links) > 1 else f"the {what}"
    small = (ranks, "into") if len(ranks) <= len(others) else (others, "out of")
    if len(ranks) == len(others) and leaves:
        small = others, "out of"
    alike = f", one of {cut.sets:,} such cuts" if cut.sets > 1 else ""
    names = tuple(topology.link_name(int(link)) for link in links[:MOST_NAMED])
    bandwidth_Bps = float(topology.bandwidth_Bps[links].sum())
    example, rate = names[0] if names else "none", f"{bandwidth_Bps / 1e9:.4g} GB/s"
    words = f"{count} {small[1]} {_ranks(topology, small[0])} ({example}), {rate}{alike}"
    return CutLinks(words, names, len(links), bandwidth_Bps, cut.sets)


def _kind(topology: Topology, links: NDArray[np.intp], nics: Container[str]) -> str:
    """`NIC `, where all links have a NIC at an end, which may stand for several, `nic0-nic3`."""
    ends = ([topology.nodes[int(end[link])] for end in (topology.source, topology.target)] for link in links[:MANY])
    found = [any(name.rpartition("/")[2].partition("-")[0] in nics for name in pair) for pair in ends]
    return "NIC " if found and all(found) else ""


def _ranks(topology: Topology, ranks: NDArray[np.intp]) -> str:
    """The ranks in words: one rank, the hosts that they fill, or their number."""
    if len(ranks) == 1:
        return topology.nodes[int(ranks[0])]
    hosts = np.unique(topology.hosts[ranks])
    if len(hosts) < len(np.unique(topology.hosts)) and np.isin(topology.hosts, hosts).sum() == len(ranks):
        return f"host {hosts[0]}" if len(hosts) == 1 else f"{len(hosts):,} hosts"
    return f"{len(ranks):,} of {topology.ranks:,} ranks"
