"""The way from GPUs to their NICs: a NIC may be faster than the slot of the GPU beside it, or than the links of a
switch that it shares."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import inf

from ringtree.machines.channels import Channels
from ringtree.machines.clusters import Cluster
from ringtree.machines.link_figures import data_Bps
from ringtree.machines.machine import DeviceKind, LinkKind, Machine
from ringtree.machines.paths import Path, paths_of
from ringtree.price.maxflow import FlowNetwork

UNBOUNDED = 1 << 60
_SLOTS = (LinkKind.PCIE, LinkKind.C2C)


@lru_cache(maxsize=64)
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
    for channel in range(graph.count):
        (gpu, nic), *leaving = graph.at_nics(channel)
        into.update(slots(paths.between(machine.nics[nic], machine.gpus[gpu])))
        for gpu, nic in leaving:
            out.update(slots(paths.to_nic(gpu, nic, cluster.fabric)))
    return min((sum(data_Bps(machine.links[n]) for n in way) / 1e9 for way in (out, into) if way), default=inf)


@lru_cache(maxsize=64)
def gpus_to_nics_GBps(machine: Machine, positions: tuple[int, ...], payload: float) -> float:
    """Bandwidth from all GPUs through the NICs at those positions, or back: of the direction that has less. Several
    GPUs and NICs may share the links of a switch. `payload`: the share of a NIC's rate that is data."""
    links = [(k.source, k.target, min(int(data_Bps(k)), UNBOUNDED)) for k in machine.links]
    inside, network = len(machine.devices), len(machine.devices) + 1
    ends = [(inside, gpu, UNBOUNDED) for gpu in machine.gpus]
    ends += [(n, network, int(machine.devices[n].rate_Bps * payload)) for n in (machine.nics[k] for k in positions)]
    out = FlowNetwork(network + 1, [*links, *ends])
    into = FlowNetwork(network + 1, [*links, *((b, a, Bps) for a, b, Bps in ends)])
    return min(out.flow(inside, network)[0], into.flow(network, inside)[0]) / 1e9
