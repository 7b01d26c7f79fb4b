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
    """The ways inside each machine and between a GPU and a port, the same in all: numbers of the machine's links,
    filled up with -1; `..._there` whether there is one. `home` is the port by which a GPU receives, `leaves_by[a, b]`
    the one by which a sends to b of another machine."""

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
    """A topology that knows its routes from rank to rank: those of NCCL's paths, through no GPU but by NVLink. Other
    routes, and where there is no such path or a link of it has failed, are the fewest links."""

    ways: MachineRoutes = field(kw_only=True)

    @staticmethod
    def with_ways(topology: Topology, ways: MachineRoutes) -> ClusterTopology:
        """The same nodes and links."""
        columns: dict[str, Any] = {f.name: getattr(topology, f.name) for f in fields(Topology)}
        return ClusterTopology(**columns, ways=ways)

    def routes(self, source: Ints, target: Ints) -> tuple[Ints, Ints] | None:
        """As a topology's, O(links of the routes): only what has no such path is searched."""
        known = (source < self.ranks) & (target < self.ranks)
        taken, there = self._ways(np.where(known, source, 0), np.where(known, target, 0))
        there &= known & ~np.any((self.bandwidth_Bps[taken] == 0) & (taken >= 0), axis=1)
        if not np.all(there):
            searched = super().routes(source[~there], target[~there])
            if searched is None:
                return None
            taken = _with_rows(taken, ~there, *searched)
        return np.concatenate([[0], np.cumsum((taken >= 0).sum(axis=1))]), taken[taken >= 0]

    def _ways(self, source: Ints, target: Ints) -> tuple[Ints, Bools]:
        """The links between each two ranks, filled up with -1, and whether there is such a way."""
        ways = self.ways
        (node, a), (other, b) = np.divmod(source, ways.gpus), np.divmod(target, ways.gpus)
        at_home = node == other
        inside = _of_node(np.where(at_home[:, None], ways.inside[a, b], -1), node, ways.links)
        if np.all(at_home):
            return inside, ways.inside_there[a, b]
        leaves, enters = ways.leaves_by[a, b], ways.home[b]
        arrives, between = ways.wires.arrives(leaves, enters), ways.wires.between(node, leaves, other, enters)
        away = [
            _of_node(ways.out[a, leaves], node, ways.links),
            np.where(between < 0, -1, between + self.links - ways.wires.links),
            _of_node(ways.into[arrives, b], other, ways.links),
        ]
        taken = np.concatenate([inside, *(np.where(at_home[:, None], -1, part) for part in away)], axis=1)
        there = np.where(at_home, ways.inside_there[a, b], ways.out_there[a, leaves] & ways.into_there[arrives, b])
        return taken, there


def _with_rows(taken: Ints, rows: Bools, first: Ints, links: Ints) -> Ints:
    """`taken` with other rows, of which the k-th is links[first[k] : first[k + 1]]."""
    lengths = np.diff(first)
    wide = np.full((len(taken), max(taken.shape[1], int(lengths.max(initial=0)))), -1)
    wide[:, : taken.shape[1]] = np.where(rows[:, None], -1, taken)
    row, column = np.repeat(np.flatnonzero(rows), lengths), np.arange(len(links)) - np.repeat(first[:-1], lengths)
    wide[row, column] = links
    return wide


def _of_node(ways: Ints, node: Ints, links: int) -> Ints:
    """A machine's links as those of the node that it is."""
    return np.where(ways < 0, -1, ways + (node * links)[:, None])
