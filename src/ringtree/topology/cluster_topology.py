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
class Ways:
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

    ways: Ways = field(kw_only=True)

    @staticmethod
    def with_ways(topology: Topology, ways: Ways) -> ClusterTopology:
        """The same nodes and links."""
        columns: dict[str, Any] = {f.name: getattr(topology, f.name) for f in fields(Topology)}
        return ClusterTopology(**columns, ways=ways)

    def routes(self, source: Ints, target: Ints) -> tuple[Ints, Ints] | None:
        """As a topology's, O(links of the routes): nothing is searched."""
        if np.any(source >= self.ranks) or np.any(target >= self.ranks):
            return super().routes(source, target)
        ways, gpus = self.ways, self.ways.gpus
        (node, a), (other, b) = np.divmod(source, gpus), np.divmod(target, gpus)
        at_home = node == other
        if not np.all(ways.inside_there[a[at_home], b[at_home]]):
            return super().routes(source, target)
        parts = [_of_node(np.where(at_home[:, None], ways.inside[a, b], -1), node, ways.links)]
        if not np.all(at_home):
            leaves, enters = ways.leaves_by[a, b], ways.home[b]
            arrives = ways.wires.arrives(leaves, enters)
            if not np.all(at_home | (ways.out_there[a, leaves] & ways.into_there[arrives, b])):
                return super().routes(source, target)
            between = ways.wires.between(node, leaves, other, enters)
            parts += [
                _of_node(ways.out[a, leaves], node, ways.links),
                np.where(between < 0, -1, between + self.links - ways.wires.links),
                _of_node(ways.into[arrives, b], other, ways.links),
            ]
            parts[1:] = [np.where(at_home[:, None], -1, part) for part in parts[1:]]
        taken = np.concatenate(parts, axis=1)
        links = taken[taken >= 0]
        if np.any(self.bandwidth_Bps[links] == 0):
            return super().routes(source, target)
        return np.concatenate([[0], np.cumsum((taken >= 0).sum(axis=1))]), links


def _of_node(ways: Ints, node: Ints, links: int) -> Ints:
    """A machine's links as those of the node that it is."""
    return np.where(ways < 0, -1, ways + (node * links)[:, None])
