"""What no schedule can beat on a topology: docs/price.md has the arguments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ringtree.ir.collective import Part
from ringtree.ir.collective import collective as find_collective
from ringtree.price import cuts
from ringtree.price.cuts import Cut
from ringtree.price.graph import Graph
from ringtree.price.latency import least_s
from ringtree.price.wording import narrow
from ringtree.topology import Topology


@dataclass(frozen=True, slots=True)
class Bound:
    """`time_s` is the longest of the others: `latency_s` (however few the bytes), `bandwidth_s` (the narrowest cut,
    which `bottleneck` names) and `work_s` (adding up)."""

    time_s: float
    latency_s: float
    bandwidth_s: float
    bottleneck: str
    work_s: float = 0.0


class Bounds:
    """A topology's, for any collective and size: each cut is looked for once. `in_network`: switches add and copy."""

    def __init__(self, topology: Topology, *, in_network: bool = False) -> None:
        self.topology, self.in_network = topology, in_network
        self._graph = Graph.of(topology)
        self._cuts = dict[tuple[str, int], tuple[Cut, bool]]()
        self._least_s = dict[tuple[int | None, bool], float]()

    def bound(self, collective: str, nbytes: int, root: int = 0) -> Bound:
        """For a whole vector of `nbytes`. ValueError for a topology whose ranks cannot all reach one another."""
        promise = find_collective(collective)
        n = self.topology.ranks
        if nbytes < 0:
            raise ValueError(f"{nbytes} bytes; expected at least 0")
        if not 0 <= root < n:
            raise ValueError(f"root {root}: expected a rank of {self.topology.name}, 0..{n - 1}")
        if n == 1:
            return Bound(0.0, 0.0, 0.0, "one rank alone")
        if promise.repeats:
            latency_s = least_s(self.topology)
            return Bound(latency_s, latency_s, 0.0, "latency")
        cut, leaves = self._cut(collective, root if promise.rooted else 0)
        latency_s = self._latency_s(root if promise.rooted else None, promise.reduces or promise.before is Part.OWN)
        bandwidth_s = float(cut.per_byte_s * nbytes)
        work_s = 0.0
        if promise.reduces and not promise.prefix and not self.in_network:
            work_s = nbytes * (n - 1) / n / self.topology.reduce_Bps
        time_s = max(latency_s, bandwidth_s, work_s)
        words = narrow(self.topology, cut, leaves=leaves)
        if time_s > bandwidth_s:
            words = "latency" if time_s == latency_s else f"adding up, {self.topology.reduce_Bps / 1e9:.4g} GB/s a rank"
        return Bound(time_s, latency_s, bandwidth_s, words, work_s)

    def _latency_s(self, root: int | None, towards: bool) -> float:
        key = (root, towards)
        if key not in self._least_s:
            self._least_s[key] = least_s(self.topology, root, towards=towards)
        return self._least_s[key]

    def _cut(self, collective: str, root: int) -> tuple[Cut, bool]:
        """The cut, and whether its bytes leave it."""
        if (collective, root) not in self._cuts:
            self._cuts[collective, root] = self._found(collective, root)
        return self._cuts[collective, root]

    def _found(self, collective: str, root: int) -> tuple[Cut, bool]:
        graph, back = self._graph, self._graph.reversed()
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
            return cuts.prefix(graph), False
        return self._all_reduce()

    def _all_reduce(self) -> tuple[Cut, bool]:
        """Each side of any cut must hear of the other; and what it takes that ranks alone add and copy."""
        graph = self._graph
        way_in, way_out = cuts.broadcast(graph, 0), cuts.broadcast(graph.reversed(), 0)
        if self.in_network:
            return (way_in, False) if way_in.per_byte_s >= way_out.per_byte_s else (way_out, True)
        ones = [[rank] for rank in range(graph.ranks)]
        tight = cuts.tight_sets(graph, self._cut("all_gather", 0)[0])
        shared = cuts.all_reduce(graph, [tight, self._hosts(), ones])
        best = cuts.widest([shared, way_in, way_out])
        return best, best is way_out

    def _hosts(self) -> list[list[int]]:
        hosts = self.topology.hosts
        order = np.argsort(hosts, kind="stable")
        return [h.tolist() for h in np.split(order, np.flatnonzero(np.diff(hosts[order])) + 1)]

    def _sets(self) -> list[list[int]]:
        """Sets of ranks that may be the worst to leave or to enter: a rank, a host, half of the hosts or ranks, and
        what is the worst for all_gather. A rank or host of each kind is enough."""
        graph, hosts, n = self._graph, self._hosts(), self._graph.ranks
        half = [rank for host in hosts[: len(hosts) // 2] for rank in host] or list(range(n // 2))
        gather = np.flatnonzero(self._cut("all_gather", 0)[0].inside[:n]).tolist()
        sets = [[rank] for rank in graph.representatives()] + [half, gather]
        kinds = {tuple(sorted(graph.kind[host].tolist())): host for host in hosts}
        sets += [host for host in kinds.values() if len(host) < n]
        rest = [np.setdiff1d(np.arange(n), ranks).tolist() for ranks in sets]
        return [ranks for ranks in sets + rest if 0 < len(ranks) < n]


def bound(collective: str, where: Topology, nbytes: int, *, root: int = 0, in_network: bool = False) -> Bound:
    """What no schedule can beat there, on a whole vector of `nbytes`. `in_network`: switches add and copy. For many
    sizes `Bounds` looks for the cuts once."""
    return Bounds(where, in_network=in_network).bound(collective, nbytes, root)
