"""The hardware's costs for any algorithm: the latency of an empty call, and the bandwidths of links and NICs at
length."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from ringtree.ir.units import count
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.link_figures import data_Bps
from ringtree.machines.machine import LinkKind, Machine, PathKind
from ringtree.nccl.link_speeds import link_GBps
from ringtree.nccl.transport.figures import (
    BLOCKS_OF_A_CHANNEL,
    NIC_SHARE,
    SHARP_SHARE,
    UNDER_WAY,
    NET_LATENCY_us,
    NVLINK_HOP_us,
)
from ringtree.nccl.transport.gpu_slots import gpu_slots_GBps, gpus_to_nics_GBps
from ringtree.nccl.transport.limit import Limit
from ringtree.nccl.transport.network import over_network
from ringtree.nccl.transport.shared_links import channel_GBps
from ringtree.nccl.transport.staged import staged, staged_limit
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.figures import PROTOCOLS, HOP_LATENCY_us, TREE_CHANNEL_GBps
from ringtree.nccl.tuning.latency import parts_us, staged_us
from ringtree.topology.fabrics import Fabric

MOST_OF_NIC = 2
"""The speed within a machine over that to its NICs at which NCCL's search stops (search.cc, ncclTopoCompute)."""


def hop_us(comm: NcclCommunicator, protocol: str) -> float:
    """The latency of a hop between machines beyond NCCL's figure for InfiniBand. With Simple the receiver first sends
    that it is ready, so a hop crosses the wire twice."""
    if comm.nodes == 1 or comm.cluster.fabric is None:
        return 0.0
    if protocol == "simple" and comm.settings.simple_us:
        return comm.settings.simple_us
    extra = comm.cluster.fabric.latency_s * 1e6 - NET_LATENCY_us
    return max(extra, 0.0) * (2 if protocol == "simple" else 1) + comm.settings.plugin_us


def nvlink_hop_us(comm: NcclCommunicator, algorithm: str, protocol: str) -> float:
    """The latency of a hop over NVLink beyond NCCL's figure."""
    longer = protocol != "simple" and comm.near(algorithm) == "nvlink"
    return NVLINK_HOP_us[comm.generation] if longer else 0.0


def slice_us(comm: NcclCommunicator) -> float:
    """Seconds of an empty slice in a ring: the wait for it and the signal of its arrival."""
    return parts_us(comm, "ring", "simple")[1]


def crossings(comm: NcclCommunicator, collective: str) -> int:
    """The number of network hops on the longest path round a ring."""
    if comm.nodes == 1:
        return 0
    return 2 * comm.nodes - 1 if collective == "all_reduce" else comm.nodes


def latency_us(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str) -> float:
    """Latency of the whole collective: NCCL's own latencies, and the fabric's addition. Each hop of a ring between
    machines counts, at the cost of a tree's hop: NCCL spreads them over all."""
    base, intra, inter = parts_us(comm, algorithm, protocol)
    intra += nvlink_hop_us(comm, algorithm, protocol)
    if algorithm != "ring":
        return staged_us(comm, algorithm, base, intra, inter + hop_us(comm, protocol))
    hops = (comm.ranks - 1) * (2 if collective == "all_reduce" else 1)
    far = min(crossings(comm, collective), hops)
    over = parts_us(comm, "tree", protocol)[2] + hop_us(comm, protocol)
    if comm.nodes > 1:  # a CPU posts a message at each step
        intra = max(intra, comm.posting_us * (3 if protocol == "simple" else 1))
    return base + (hops - far) * intra + far * over


def nic_limit(comm: NcclCommunicator, algorithm: str, protocol: str = "simple") -> Limit:
    """Bandwidth of all NICs that an algorithm's channels use together, each way, in bytes on the wire."""
    graph = comm.graph_of(algorithm)
    if comm.nodes == 1:
        return Limit(inf, "")
    machine, fabric = comm.cluster.machine, comm.cluster.fabric
    assert fabric is not None
    used = sorted({n for pair in graph.nics for n in pair}) or list(range(min(graph.count, len(machine.nics))))
    if comm.rccl and _mesh_GBps(comm):  # a ring from each NIC, more than the search finds (rome_models.cc, model 81)
        used = list(range(len(machine.nics)))
    least = nics_limit(machine, fabric, used)
    if comm.reduces_in_network(algorithm):
        rates = sum(machine.devices[machine.nics[n]].rate_Bps for n in used) / 1e9
        least = min(least, Limit(rates * SHARP_SHARE, f"{least.words}, whose switches reduce"))
    if graph.nics:
        way = min(gpu_slots_GBps(comm.cluster, graph), gpus_to_nics_GBps(machine, tuple(used), fabric.payload))
        least = min(least, Limit(way, "PCIe: between GPUs and NICs"))
    if not fabric.rdma:
        ranks = min(graph.count, comm.per_node)  # whose proxy threads have the channels' sockets
        kernel = fabric.kernel_Bps / 1e9 * ranks
        least = min(
            least, Limit(kernel, f"{fabric.name}: {count(ranks, 'thread')} of {fabric.kernel_Bps / 1e9:.3g} GB/s")
        )
    if protocol == "simple":
        least = min(least, _window(comm, algorithm, fabric))
    if graph.inter >= PathKind.PHB:
        least = min(least, Limit(graph.count * graph.inter_Bps / 1e9, "CPU link: between GPUs and NICs"))
    return over_network(comm.cluster, "ring" if algorithm == "ring" else "tree", least, len(used))


def nics_limit(machine: Machine, fabric: Fabric, positions: Sequence[int]) -> Limit:
    """Bandwidth of the machine's NICs at those positions together: each its rate times the fabric's efficiency, or its
    slot's bandwidth if that is less."""
    rates = [machine.devices[machine.nics[n]].rate_Bps / 1e9 for n in positions]
    slots = [_slot_GBps(machine, machine.nics[n]) for n in positions]
    carried = [min(rate * fabric.payload, slot) for rate, slot in zip(rates, slots, strict=True)]
    words = f"NICs: {len(rates)} x {rates[0]:g} GB/s"
    if slots[0] < rates[0] * fabric.payload:
        words += f" in slots of {slots[0]:.3g} GB/s"
    return Limit(sum(carried) * NIC_SHARE, words)


def _slot_GBps(machine: Machine, nic: int) -> float:
    """Bandwidth of a NIC's PCIe links for data, in GB/s; no limit where it has none."""
    slots = [machine.links[n] for n in machine.leaving(nic)]
    return sum(data_Bps(k) for k in slots if k.kind is LinkKind.PCIE) / 1e9 or inf


def _window(comm: NcclCommunicator, algorithm: str, fabric: Fabric) -> Limit:
    """Bandwidth of connections whose buffers are under way for a hop's latency."""
    buffer = comm.settings.buffer_bytes
    share = UNDER_WAY["ring" if algorithm == "ring" else "tree"]
    hop = HOP_LATENCY_us["net"][algorithm][PROTOCOLS.index("simple")] + hop_us(comm, "simple")
    connections = comm.nvls_channels if algorithm.startswith("nvls") else comm.channels
    return Limit(
        connections * share * buffer / hop / 1e3, f"{fabric.name}: {buffer >> 20} MiB under way for {hop:.0f} us"
    )


def block_GBps(comm: NcclCommunicator) -> float:
    """Copy bandwidth of one of NVIDIA's thread blocks: the most that NCCL's source gives a channel, of two of them."""
    return max(TREE_CHANNEL_GBps[comm.generation]) / BLOCKS_OF_A_CHANNEL


def link_limit(comm: NcclCommunicator, graph: Channels, chain: bool = False) -> Limit:
    """Bandwidth of the channels within a machine, together: no limit where each machine has one GPU. `chain`: rings are
    not closed."""
    if comm.per_node == 1:
        return Limit(inf, "")
    if staged(comm, graph):
        return staged_limit(comm, graph, chain)
    GBps = max(graph.count * graph.intra_Bps / 1e9, _mesh_GBps(comm))
    if graph.pattern is Pattern.RING and graph.intra is PathKind.NVL:
        GBps = max(GBps, graph.count * channel_GBps(comm.cluster, graph.orders, chain)[0])
    return Limit(GBps, _link_words(comm, graph, GBps))


def named_by_cause(comm: NcclCommunicator, graph: Channels, link: Limit, nic: Limit) -> Limit:
    """The limit of the channels within a machine, in the NICs' words where those set it: NCCL's search leaves a tree's
    channels at twice their speed to the NICs, however much more the links carry."""
    if comm.per_node == 1:
        return Limit(link.GBps, nic.words)
    found = graph.count * graph.intra_Bps / 1e9
    if comm.nodes == 1 or link.GBps != found or graph.intra_Bps < MOST_OF_NIC * graph.inter_Bps:
        return link
    carried = graph.count * channel_GBps(comm.cluster, graph.orders, False)[0]
    return Limit(link.GBps, nic.words) if carried > found else link


def _mesh_GBps(comm: NcclCommunicator) -> float:
    """Bandwidth of the rings of GPUs that have an xGMI link to each other GPU: as many as other GPUs use each link
    once, and between machines, where a ring's last GPU sends to a NIC, as many as GPUs (RCCL's rome_models.cc)."""
    machine = comm.cluster.machine
    gpus = set(machine.gpus)
    least = inf
    for gpu in gpus:
        links = [machine.links[n] for n in machine.leaving(gpu)]
        near = [k for k in links if k.kind is LinkKind.XGMI and k.target in gpus]
        if {k.target for k in near} != gpus - {gpu}:
            return 0.0
        least = min(least, sum(link_GBps(k, machine.devices[gpu], machine.devices[k.target]) for k in near))
    if len(gpus) < 2:
        return 0.0
    return least * (len(gpus) / (len(gpus) - 1) if comm.nodes > 1 else 1.0)


def _link_words(comm: NcclCommunicator, graph: Channels, GBps: float) -> str:
    if graph.intra > PathKind.C2C:
        return {
            PathKind.PIX: "PCIe: a switch",
            PathKind.PXB: "PCIe: switches",
            PathKind.SYS: "CPU link: between two CPUs",
        }.get(graph.intra, "PCIe: through a CPU")
    machine = comm.cluster.machine
    own = [machine.links[n] for n in machine.leaving(machine.gpus[0])]
    for kind, name in ((LinkKind.NVLINK, "NVLink"), (LinkKind.XGMI, "xGMI")):
        links = [k for k in own if k.kind is kind]
        if links:
            total, width = sum(k.bandwidth_Bps for k in links) / 1e9, sum(k.width for k in links)
            return f"{name}: {width} x {total / width:g} GB/s at {100 * min(GBps / total, 1):.0f} %"
    return "NVLink"
