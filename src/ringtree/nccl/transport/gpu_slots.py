"""The slots of GPUs on the way to their NICs: a NIC may be faster than the GPU beside it."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from ringtree.machines.channels import Channels
from ringtree.machines.clusters import Cluster
from ringtree.machines.link_figures import data_Bps
from ringtree.machines.machine import DeviceKind, LinkKind
from ringtree.machines.paths import Path, paths_of

_SLOTS = (LinkKind.PCIE, LinkKind.C2C)


def gpu_slots_GBps(cluster: Cluster, graph: Channels) -> float:
    """Bandwidth of the slots through which a graph's channels leave their GPUs for NICs, or enter them: of the
    direction that has less; no limit where none lies on the way. `graph` has NICs."""
    machine, paths = cluster.machine, paths_of(cluster.machine)

    def slots(path: Path) -> Iterator[int]:
        for number in path.links:
            link = machine.links[number]
            ends = (machine.devices[link.source].kind, machine.devices[link.target].kind)
            if link.kind in _SLOTS and DeviceKind.GPU in ends:
                yield number

    out, into = set[int](), set[int]()
    for order, (enters, leaves) in zip(graph.orders, graph.nics, strict=True):
        out.update(slots(paths.to_nic(order[-1], leaves, cluster.fabric)))
        into.update(slots(paths.between(machine.nics[enters], machine.gpus[order[0]])))
    return min((sum(data_Bps(machine.links[n]) for n in way) / 1e9 for way in (out, into) if way), default=inf)
