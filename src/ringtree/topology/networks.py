"""The networks of a cluster: the switches and links between the NICs' ports, and the routes over them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isqrt, prod

import numpy as np
from numpy.typing import NDArray

from ringtree.topology.fabrics import Fabric

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
LEAF_PORTS = 32
"""NICs under a leaf: half the ports of a switch of 64 (NVIDIA Quantum-2, Broadcom Tomahawk 4)."""


class NetworkShape(str, Enum):
    """RAILS: the k-th NIC of every machine on a leaf of its own, so that rails meet at the spine only; where the spine
    is oversubscribed and there are more machines than a leaf has ports, a pod of such leaves for each such number of
    machines. FAT_TREE: machines under leaves. TORUS: machines in a grid, links to neighbours."""

    RAILS = "rails"
    FAT_TREE = "fat_tree"
    TORUS = "torus"


@dataclass(frozen=True)
class Ports:
    """The ends of a network: `nodes[i, k]` is the number of machine i's k-th port, `bandwidth_Bps[k]` such a port's
    bandwidth each way."""

    nodes: Ints
    bandwidth_Bps: Floats


@dataclass(frozen=True)
class Wires:
    """A network's links, as columns, and the names of its switches, which are nodes after the last of `ports`. This
    class: machines that meet at their ports, without links."""

    switches: tuple[str, ...]
    source: Ints
    target: Ints
    latency_s: Floats
    bandwidth_Bps: Floats

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self.source)

    def between(self, node: Ints, leaves: Ints, other: Ints, enters: Ints) -> Ints:
        """The links from one to the other of each pair of machines and ports, [pairs, links], by number, padded with
        -1."""
        return np.full((len(node), 0), -1)

    def arrives(self, leaves: Ints, enters: Ints) -> Ints:
        """The ports by which messages arrive that leave by `leaves` for `enters`."""
        return enters


NO_WIRES = Wires((), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Leaves(Wires):
    """Ports under leaves, leaves under one spine. Links: ports up, ports down, leaves up, leaves down."""

    leaf: Ints

    def between(self, node: Ints, leaves: Ints, other: Ints, enters: Ints) -> Ints:
        """Port up, leaf up, leaf down and port down of each pair; -1 for both leaf links under one leaf."""
        machines, each = self.leaf.shape
        below, above = self.leaf[node, leaves], self.leaf[other, enters]
        up = 2 * machines * each
        by_spine = below != above
        return np.stack(
            [
                node * each + leaves,
                np.where(by_spine, up + below, -1),
                np.where(by_spine, up + int(self.leaf.max()) + 1 + above, -1),
                machines * each + other * each + enters,
            ],
            axis=1,
        )


@dataclass(frozen=True)
class Torus(Wires):
    """Each port beside the same one of the neighbours. `number[d, way, i, k]`: the link of machine i's port k, up (0)
    or down (1) dimension d."""

    dims: tuple[int, ...]
    number: Ints

    def between(self, node: Ints, leaves: Ints, other: Ints, enters: Ints) -> Ints:
        """The links of each pair, dimension by dimension along the shorter direction, padded with -1."""
        at, to = np.unravel_index(node, self.dims), np.unravel_index(other, self.dims)
        position, columns = [np.array(a) for a in at], []
        for d, size in enumerate(self.dims):
            up = (to[d] - at[d]) % size
            way, steps = np.where(up * 2 <= size, 0, 1), np.minimum(up, size - up)
            for step in range(size // 2):
                here = np.ravel_multi_index(tuple(position), self.dims)
                columns.append(np.where(step < steps, self.number[d, way, here, leaves], -1))
                position[d] = np.where(step < steps, (position[d] + 1 - 2 * way) % size, position[d])
        return np.stack(columns, axis=1)

    def arrives(self, leaves: Ints, enters: Ints) -> Ints:
        """The ports of departure: a message stays on one port through the whole torus."""
        return leaves


def machines_of_leaf(each: int) -> int:
    """The number of machines of `each` ports below one leaf of a fat tree."""
    return max(1, LEAF_PORTS // each)


def leaves(ports: Ports, fabric: Fabric, first_switch: int, network: NetworkShape, oversubscription: float) -> Leaves:
    """RAILS or FAT_TREE; no spine where there is one leaf. The spine's bandwidth is that of all leaves' uplinks: each
    its ports' bandwidth over the oversubscription."""
    machines, each = ports.nodes.shape
    if network is NetworkShape.RAILS:
        below = LEAF_PORTS if oversubscription > 1 else machines
        leaf = np.arange(machines)[:, None] // below * each + np.arange(each)
        pods = [f"pod{p}/" for p in range(-(-machines // below))] if machines > below else [""]
        switches = tuple(f"{pod}rail{k}" for pod in pods for k in range(each))
    else:
        leaf = np.repeat(np.arange(machines) // machines_of_leaf(each), each).reshape(machines, each)
        switches = tuple(f"leaf{k}" for k in range(int(leaf.max()) + 1))
    count = len(switches)
    switches += ("spine",) if count > 1 else ()
    port, below = ports.nodes.ravel(), first_switch + leaf.ravel()
    of_port = np.tile(ports.bandwidth_Bps, machines)
    source, target, bandwidth_Bps = [port, below], [below, port], [of_port, of_port]
    latency_s = np.full(2 * len(port), fabric.hop_s / 2)
    if count > 1:
        upper, spine = first_switch + np.arange(count), np.full(count, first_switch + count)
        carried = np.bincount(leaf.ravel(), of_port) / oversubscription
        source, target, bandwidth_Bps = (
            [*source, upper, spine],
            [*target, spine, upper],
            [*bandwidth_Bps, *2 * [carried]],
        )
        latency_s = np.concatenate([latency_s, np.full(2 * count, fabric.hop_s)])
    return Leaves(
        switches, np.concatenate(source), np.concatenate(target), latency_s, np.concatenate(bandwidth_Bps), leaf
    )


def torus(ports: Ports, fabric: Fabric) -> Torus:
    """Machines in a grid of up to three dimensions, as near to a cube as their number allows. A port's bandwidth is
    shared by its directions, and each hop is a switch's."""
    machines, each = ports.nodes.shape
    dims = grid(machines)
    machine = np.arange(machines).reshape(dims)
    directions = sum(min(size - 1, 2) for size in dims)
    number = np.full((len(dims), 2, machines, each), -1)
    source, target = list[Ints](), list[Ints]()
    for d, size in enumerate(dims):
        for way in range(min(size - 1, 2)):
            neighbour = np.roll(machine, 2 * way - 1, axis=d).ravel()
            number[d, way] = sum(map(len, source)) + np.arange(ports.nodes.size).reshape(ports.nodes.shape)
            source.append(ports.nodes.ravel())
            target.append(ports.nodes[neighbour].ravel())
    of_port = np.tile(ports.bandwidth_Bps / max(directions, 1), machines * directions)
    latency_s = np.full(len(of_port), fabric.hop_s)
    return Torus((), np.concatenate(source), np.concatenate(target), latency_s, of_port, dims, number)


def grid(machines: int) -> tuple[int, ...]:
    """Three dimensions or fewer for that number of machines, of the least sum: 64 as 4 x 4 x 4, 7 as 7."""
    best: tuple[int, ...] = (machines,)
    for a in range(2, round(machines ** (1 / 3)) + 2):
        rest = machines // a
        if machines % a == 0 and rest > 1:
            best = min(best, (rest, a), *_pairs(rest, a), key=lambda dims: (sum(dims), len(dims)))
    for a in range(2, isqrt(machines) + 1):
        if machines % a == 0:
            best = min(best, (machines // a, a), key=lambda dims: (sum(dims), len(dims)))
    assert prod(best) == machines
    return best


def _pairs(machines: int, third: int) -> list[tuple[int, ...]]:
    return [(machines // b, b, third) for b in range(2, isqrt(machines) + 1) if machines % b == 0]
