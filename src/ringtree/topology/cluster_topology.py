"""A cluster's nodes and links as a topology, whose routes are NCCL's paths."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.topology.graph import Topology
from ringtree.topology.networks import Wires

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class MachineRoutes:
    """The routes inside each machine and between a GPU and a port, the same in all machines. `inside` [GPUs, GPUs,
    links], `out` [GPUs, ports, links], `into` [ports, GPUs, links]: numbers of the machine's links, padded with -1;
    `..._there`: whether there is a route. `home[a]` is the port by which GPU a receives, `leaves_by[a, b]` the port by
    which a sends to b of another machine."""

    gpus: int
    links: int
    inside: Ints
    inside_there: Bools
    home: Ints
    leaves_by: Ints
    out: Ints
    out_there: Bools
    into: Ints
    into_there: Bools
    wires: Wires


@dataclass(frozen=True, eq=False)
class ClusterTopology(Topology):
    """A topology with given routes from rank to rank: NCCL's paths, through a GPU by NVLink alone. Other routes, and
    those of pairs without such a path or with a failed link on it, have the fewest links."""

    inner: MachineRoutes = field(kw_only=True)

    @staticmethod
    def with_routes(topology: Topology, routes: MachineRoutes) -> ClusterTopology:
        """The topology's nodes and links, with those routes."""
        columns: dict[str, Any] = {f.name: getattr(topology, f.name) for f in fields(Topology)}
        return ClusterTopology(**columns, inner=routes)

    def routes(self, source: Ints, target: Ints) -> tuple[Ints, Ints] | None:
        """The routes as a topology's, in O(links of the routes): pairs without such a path are searched."""
        known = (source < self.ranks) & (target < self.ranks)
        taken, there = self._inner_routes(np.where(known, source, 0), np.where(known, target, 0))
        there &= known & ~np.any((self.bandwidth_Bps[taken] == 0) & (taken >= 0), axis=1)
        if not np.all(there):
            searched = super().routes(source[~there], target[~there])
            if searched is None:
                return None
            taken = _with_rows(taken, ~there, *searched)
        return np.concatenate([[0], np.cumsum((taken >= 0).sum(axis=1))]), taken[taken >= 0]

    def _inner_routes(self, source: Ints, target: Ints) -> tuple[Ints, Bools]:
        """The links between each two ranks [pairs, links], padded with -1, and whether there is such a route
        [pairs]."""
        inner = self.inner
        (node, a), (other, b) = np.divmod(source, inner.gpus), np.divmod(target, inner.gpus)
        at_home = node == other
        inside = _of_node(np.where(at_home[:, None], inner.inside[a, b], -1), node, inner.links)
        if np.all(at_home):
            return inside, inner.inside_there[a, b]
        leaves, enters = inner.leaves_by[a, b], inner.home[b]
        arrives, between = inner.wires.arrives(leaves, enters), inner.wires.between(node, leaves, other, enters)
        away = [
            _of_node(inner.out[a, leaves], node, inner.links),
            np.where(between < 0, -1, between + self.links - inner.wires.links),
            _of_node(inner.into[arrives, b], other, inner.links),
        ]
        taken = np.concatenate([inside, *(np.where(at_home[:, None], -1, part) for part in away)], axis=1)
        there = np.where(at_home, inner.inside_there[a, b], inner.out_there[a, leaves] & inner.into_there[arrives, b])
        return taken, there


def _with_rows(taken: Ints, rows: Bools, first: Ints, links: Ints) -> Ints:
    """`taken` with `rows` replaced, the k-th of them by links[first[k] : first[k + 1]]."""
    lengths = np.diff(first)
    wide = np.full((len(taken), max(taken.shape[1], int(lengths.max(initial=0)))), -1)
    wide[:, : taken.shape[1]] = np.where(rows[:, None], -1, taken)
    row, column = np.repeat(np.flatnonzero(rows), lengths), np.arange(len(links)) - np.repeat(first[:-1], lengths)
    wide[row, column] = links
    return wide


def _of_node(taken: Ints, node: Ints, links: int) -> Ints:
    """A machine's link numbers as those of its node."""
    return np.where(taken < 0, -1, taken + (node * links)[:, None])
