"""Bandwidth between machines that the network leaves to NCCL's messages: to rings and trees over machines in order,
and to collectives of sends and receives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ringtree.machines.clusters import Cluster
from ringtree.machines.contraction import contract
from ringtree.machines.machine import Machine
from ringtree.machines.wiring import wire
from ringtree.nccl.transport.limit import Limit
from ringtree.topology.fabrics import Fabric
from ringtree.topology.networks import LEAF_PORTS, NetworkShape, grid, machines_of_leaf

TREE_EDGES = 1.5
"""A tree over machines in order has some three edges out of a leaf, half the vector on each."""


def over_network(cluster: Cluster, pattern: str, nics: Limit, used: int) -> Limit:
    """The limit that remains of that of `used` NICs. `pattern`: ring, tree, or a collective of sends and receives."""
    torus = cluster.network is NetworkShape.TORUS
    share = _of_torus(cluster.nodes, pattern) if torus else _of_leaves(cluster, pattern, used)
    if share >= 1:
        return nics
    way = f"oversubscribed {cluster.oversubscription:g}"
    if torus:
        way = "over a torus of " + " x ".join(map(str, grid(cluster.nodes)))
    return Limit(nics.GBps * share, f"{nics.words}, {way}")


def _of_torus(machines: int, pattern: str) -> float:
    """A port's bandwidth is shared by its directions. In order the next machine is a link away, or one link in each of
    several dimensions at a row's end; a tree has no edge that is shorter."""
    dims = grid(machines)
    directions = sum(min(size - 1, 2) for size in dims)
    if pattern == "all_to_all":
        return min(1.0, (machines - 1) / directions / max(_steps(size) * machines / size for size in dims))
    if pattern in ("gather", "scatter"):  # the last link to the root, by the dimension in which a message comes last
        order = dims if pattern == "gather" else dims[::-1]
        last = max(size // 2 * prod(order[:d]) for d, size in enumerate(order))
        return min(1.0, (machines - 1) / directions / last)
    return 1 / directions


def _steps(size: int) -> int:
    """Steps up a dimension that one machine's messages make to those of its row: the half of them that is nearer that
    way."""
    half = size // 2
    return half * (half + 1) // 2


@dataclass(frozen=True)
class _Rails:
    """Whether messages between machines stay on one rail, as the receiver's NIC is as near to the sender or PXN reaches
    it: the share of pairs of ranks, of senders to rank 0, and whether that of the last rank and rank 0 does."""

    pairs: float
    to_root: float
    next_rank: bool


@lru_cache(maxsize=8)
def _rails(machine: Machine, fabric: Fabric) -> _Rails:
    routes = wire(machine.name, machine, 2, fabric, NetworkShape.RAILS, 1.0).inner
    stays = routes.leaves_by == routes.home
    return _Rails(float(stays.mean()), float(stays[:, 0].mean()), bool(stays[-1, 0]))


def _of_leaves(cluster: Cluster, pattern: str, used: int) -> float:
    """The least over the leaves of RAILS and FAT_TREE: what a leaf's ports carry to the spine over what comes from its
    machines for others. There are full leaves, and a last one, perhaps of fewer machines."""
    machines, over = cluster.nodes, cluster.oversubscription
    if over == 1:
        return 1.0
    rails = cluster.network is NetworkShape.RAILS
    each = len(contract(cluster.machine).machine.nics)
    full = min(machines, LEAF_PORTS if rails else machines_of_leaf(each))
    assert cluster.fabric is not None
    on = _rails(cluster.machine, cluster.fabric) if rails else _Rails(1.0, 1.0, True)
    ports = 1 if rails else each / used  # of a machine below one leaf, for each that carries a message in turn
    shares = [1.0]
    for below in {full, machines % full or full}:
        others = (machines - below) / (machines - 1)
        if pattern == "all_to_all":
            crosses = 1 - on.pairs * (1 - others)
            shares.append(1 / max(over * crosses, 1))
        elif pattern in ("gather", "scatter"):
            crosses = 1 - on.to_root * (1 - others)
            if below == full and crosses:  # the root's leaf
                shares.append(below * ports / over / crosses)
        elif pattern == "send_recv" and not on.next_rank:
            shares.append(1 / over)
        elif machines > full:  # one machine of a leaf's passes on to the next leaf
            carried = below / over * (ports if pattern == "send_recv" else 1)
            shares.append(carried / (TREE_EDGES if pattern == "tree" else 1))
    return min(shares)
