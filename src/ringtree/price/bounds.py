"""Lower bounds of every schedule's time on a topology: docs/price.md has the arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from ringtree.ir.collective import BufferExtent
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.units import check_byte_count
from ringtree.machines.clusters import Cluster, NetworkShape
from ringtree.machines.machine import Machine
from ringtree.price import cuts
from ringtree.price.cuts import Cut, CutLinks, narrow
from ringtree.price.graph import Graph
from ringtree.price.latency import least_s, to_the_next_s
from ringtree.topology import Topology

MOST_NODES = 128
"""Nodes that stand for all of a larger cluster: see `Bounds`."""
MOST_TORUS_NODES = 1 << 14
"""A torus is examined whole: no torus of fewer nodes has its cuts."""
SEND_RECV = "send_recv"
"""Sends between neighbours; no collective."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A lower bound in seconds. `time_s` is the longest of the others: `latency_s` (however few the bytes),
    `bandwidth_s` (the narrowest cut, which `bottleneck` names) and `work_s` (adding up). `cut`: the links of the
    narrowest cut, also where another term is longer; None where no byte crosses a link."""

    time_s: float
    latency_s: float
    bandwidth_s: float
    bottleneck: str
    work_s: float = 0.0
    cut: CutLinks | None = None


class Bounds:
    """The lower bounds of a topology or cluster, for any collective and size: each cut is searched once. `in_network`:
    switches add and copy; `in_hosts`: those within a host do.

    The narrowest cuts of alike nodes on a network of leaves are a part of one node, a node, or a leaf's: their smaller
    side is the same for any number of nodes. So of very many nodes a few are examined, and the other side is counted in
    full. Such a cut is also a cut of all nodes, so the bound holds in any case.
    """

    def __init__(self, where: Topology | Cluster, *, in_network: bool = False, in_hosts: bool = False) -> None:
        few = where
        if isinstance(where, Cluster) and where.network is NetworkShape.TORUS:
            if where.nodes > MOST_TORUS_NODES:
                raise ValueError(
                    f"{where.name}: {where.nodes:,} nodes of a torus; expected at most {MOST_TORUS_NODES:,}"
                )
        elif isinstance(where, Cluster) and where.nodes > MOST_NODES:
            few = replace(where, nodes=MOST_NODES)
        self.topology = few.topology() if isinstance(few, Cluster) else few
        self.ranks, self.in_network, self.in_hosts = where.ranks, in_network, in_hosts
        self._nics = _nics(where.machine) if isinstance(where, Cluster) else frozenset()
        self._graph = Graph.of(self.topology)
        self._cuts = dict[tuple[str, int], tuple[Cut, bool]]()
        self._links = dict[tuple[str, int], CutLinks]()
        self._least_s = dict[tuple[int | None, bool, bool], float]()

    def bound(self, collective: str, nbytes: int, root: int = 0) -> LowerBound:
        """The lower bound for a whole vector of `nbytes`. `send_recv`: each rank's to the next (nccl-tests' sendrecv).
        ValueError: if `nbytes` is below 0, `root` is no rank, or the ranks cannot all reach one another."""
        if collective == SEND_RECV:
            return self._to_the_next(nbytes)
        promise = find_collective(collective)
        n = self.ranks
        check_byte_count(nbytes)
        if not 0 <= root < n:
            raise ValueError(f"root {root}: expected 0..{n - 1}")
        if n == 1:
            return LowerBound(0.0, 0.0, 0.0, "a single rank")
        if promise.repeats:
            latency_s = least_s(self.topology)
            return LowerBound(latency_s, latency_s, 0.0, "latency")
        root = root % self.topology.ranks if promise.rooted else 0
        cut, leaves = self._cut(collective, root)
        cut = self._of_all(collective, cut)
        towards = not promise.prefix and (promise.reduces or promise.before is BufferExtent.OWN)
        latency_s = self._latency_s(root if promise.rooted else None, towards, promise.prefix)
        bandwidth_s = float(cut.per_byte_s * nbytes)
        work_s = 0.0
        if promise.reduces and not promise.prefix and not (self.in_network or self.in_hosts):
            work_s = nbytes * (n - 1) / n / self.topology.reduce_Bps
        time_s = max(latency_s, bandwidth_s, work_s)
        links = self._named(collective, root, cut, leaves)
        words = links.words
        if time_s > bandwidth_s:
            rate = f"{self.topology.reduce_Bps / 1e9:.4g} GB/s"
            words = "latency" if time_s == latency_s else f"reducing, {rate} per rank"
        return LowerBound(time_s, latency_s, bandwidth_s, words, work_s, links)

    def _to_the_next(self, nbytes: int) -> LowerBound:
        if self.ranks == 1:
            return LowerBound(0.0, 0.0, 0.0, "a single rank")
        cut, leaves = self._cut(SEND_RECV, 0)
        latency_s, bandwidth_s = self._to_the_next_s, float(cut.per_byte_s * nbytes)
        links = self._named(SEND_RECV, 0, cut, leaves)
        words = "latency" if latency_s > bandwidth_s else links.words
        return LowerBound(max(latency_s, bandwidth_s), latency_s, bandwidth_s, words, cut=links)

    def _named(self, collective: str, root: int, cut: Cut, leaves: bool) -> CutLinks:
        if (collective, root) not in self._links:
            self._links[collective, root] = narrow(self.topology, cut, leaves=leaves, nics=self._nics)
        return self._links[collective, root]

    @cached_property
    def _to_the_next_s(self) -> float:
        return to_the_next_s(self.topology)

    def _latency_s(self, root: int | None, towards: bool, upwards: bool) -> float:
        key = (root, towards, upwards)
        if key not in self._least_s:
            self._least_s[key] = least_s(self.topology, root, towards=towards, upwards=upwards)
        return self._least_s[key]

    def _cut(self, collective: str, root: int) -> tuple[Cut, bool]:
        """Returns the cut, and whether its bytes leave it."""
        if (collective, root) not in self._cuts:
            self._cuts[collective, root] = self._found(collective, root)
        return self._cuts[collective, root]

    def _of_all(self, collective: str, cut: Cut) -> Cut:
        """A cut of fewer nodes as a cut of all: the same ranks on its smaller side, and more on the other."""
        few, all_ranks = self.topology.ranks, self.ranks
        if few == all_ranks:
            return cut
        inside = int(cut.inside[:few].sum())
        side, sets = min(inside, few - inside), cut.sets * all_ranks // few
        across = Fraction(all_ranks - side, all_ranks) / Fraction(few - side, few)
        if collective in ("broadcast", "reduce", "scan", "exscan") or 2 * side == few:
            across = Fraction(1)
        if collective == "all_reduce":
            across = Fraction(sets - 1, sets) / Fraction(cut.sets - 1, cut.sets) if cut.sets > 1 else Fraction(1)
        return replace(cut, per_byte_s=cut.per_byte_s * across, sets=sets if cut.sets > 1 else 1)

    def _found(self, collective: str, root: int) -> tuple[Cut, bool]:
        graph, back = self._graph, self._graph.reversed()
        if collective == SEND_RECV:
            return cuts.neighbours(graph), False
        if collective == "all_gather":
            return cuts.all_gather(graph), False
        if collective == "reduce_scatter":
            return cuts.all_gather(back), True
        if collective in ("broadcast", "reduce"):
            return cuts.broadcast(graph if collective == "broadcast" else back, root), collective == "reduce"
        if collective in ("scatter", "gather"):
            return cuts.scatter(graph if collective == "scatter" else back, root), collective == "gather"
        if collective == "all_to_all":
            return cuts.all_to_all(graph, self._sets()), False
        if collective in ("scan", "exscan"):
            return cuts.prefix(graph, self._firsts()), False
        return self._all_reduce()

    def _all_reduce(self) -> tuple[Cut, bool]:
        """The cut where each side must receive from the other; and the cut for ranks that alone add and copy."""
        graph = self._graph
        shared = Cut(Fraction(0), np.zeros(graph.nodes, np.bool_))
        if not self.in_network:
            gather, scatter = (self._cut(name, 0)[0] for name in ("all_gather", "reduce_scatter"))
            ones = [] if self.in_hosts else [cuts.tight_sets(graph, gather), self._ones()]
            shared = cuts.all_reduce(graph, [self._hosts(), *ones])
            if shared.per_byte_s >= 2 * max(gather.per_byte_s, scatter.per_byte_s):
                return shared, False  # one side of any cut has half of the ranks: no cut gives a higher bound
        way_in, way_out = cuts.broadcast(graph, 0), cuts.broadcast(graph.reversed(), 0)
        best = cuts.widest([shared, way_in, way_out])
        return best, best is way_out

    def _ones(self) -> list[cuts.AlikeSets]:
        """The sets of one rank each."""
        kinds = self._graph.kind[: self._graph.ranks]
        _, first, count = np.unique(kinds, return_index=True, return_counts=True)
        return [([rank], times) for rank, times in zip(first.tolist(), count.tolist(), strict=True)]

    def _hosts(self) -> list[cuts.AlikeSets]:
        """The ranks of each host."""
        hosts = self.topology.hosts
        order = np.lexsort((self._graph.kind[: len(hosts)], hosts))
        starts = np.flatnonzero(np.diff(hosts[order], prepend=-1))
        kinds = self._graph.kind[order]
        if len(order) % len(starts) == 0 and np.all(np.diff(starts) == len(order) // len(starts)):
            rows = kinds.reshape(len(starts), -1)
            _, first, count = np.unique(rows, axis=0, return_index=True, return_counts=True)
            return list(zip(order.reshape(rows.shape)[first].tolist(), count.tolist(), strict=True))
        return [(ranks.tolist(), 1) for ranks in np.split(order, starts[1:])]

    def _firsts(self) -> list[int]:
        """Numbers of first ranks to try: of few ranks any number, else a rank, a host, half, and all but these."""
        n, host = self._graph.ranks, int(np.sum(self.topology.hosts == self.topology.hosts[0]))
        return sorted(range(1, n) if n <= cuts.MOST_RANKS else {1, host, n // 2, n - host, n - 1} - {n, 0})

    def _sets(self) -> list[list[int]]:
        """Sets of ranks that may be the worst to leave or to enter: a rank, a host, half of the hosts or ranks, the
        ranks behind switches, and the worst set for all_gather. One of alike sets is enough."""
        hosts, n = self.topology.hosts, self._graph.ranks
        half = np.flatnonzero(hosts < np.median(hosts)) if len(np.unique(hosts)) > 1 else np.arange(n // 2)
        gather = np.flatnonzero(self._cut("all_gather", 0)[0].inside[:n])
        sets = [ranks for ranks, _ in (*self._ones(), *self._hosts())] + [gather.tolist(), half.tolist()]
        sets = list(map(list, {tuple(sorted(ranks)): None for ranks in [*sets, *cuts.behind_switches(self._graph)]}))
        rest = [np.setdiff1d(np.arange(n), ranks).tolist() for ranks in sets]
        return [ranks for ranks in sets + rest if 0 < len(ranks) < n]


def _nics(machine: Machine) -> frozenset[str]:
    """The name of a node's NICs."""
    return frozenset(machine.devices[n].name for n in machine.nics)


def bound(
    collective: str, where: Topology | Cluster, nbytes: int, *, root: int = 0, in_network: bool = False
) -> LowerBound:
    """The lower bound of any schedule's time there, on a whole vector of `nbytes`. `in_network`: switches add and copy.
    Errors as in `Bounds.bound`. For many sizes `Bounds` searches the cuts once."""
    return Bounds(where, in_network=in_network).bound(collective, nbytes, root)
