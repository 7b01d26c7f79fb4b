"""Collectives that NCCL builds from sends and receives: the load of each link and NIC, all pairs at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ringtree.ir.units import count
from ringtree.machines.machine import LinkKind
from ringtree.machines.paths import paths_of
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.link_speeds import link_GBps
from ringtree.nccl.transport.figures import (
    PEER_NVLINK_SHARE,
    FAR_CHANNEL_GBps,
    PEER_BLOCK_GBps,
    PEER_LL_bytes,
)
from ringtree.nccl.transport.hardware import hop_us, nics_limit, nvlink_hop_us
from ringtree.nccl.transport.limit import Limit
from ringtree.nccl.transport.network import over_network
from ringtree.nccl.transport.peer_channels import PeerChannels, chunk_bytes, peer_channels
from ringtree.nccl.transport.staged import gpu_path
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.figures import PROTOCOLS, BASE_LATENCY_us, HOP_LATENCY_us

EXCHANGES = ("all_to_all", "send_recv", "gather", "scatter")
"""`send_recv` is nccl-tests' sendrecv: each rank sends the vector to the next rank and receives the previous rank's."""


def exchange(comm: NcclCommunicator, collective: str, nbytes: int) -> tuple[Estimate, ...]:
    """The estimates with Simple, and with LL where the pieces are small enough, the fastest first."""
    piece = nbytes if collective == "send_recv" else nbytes / comm.ranks
    channels = peer_channels(comm, collective, piece)
    kinds = ("ll", "simple") if piece <= channels.each * PEER_LL_bytes else ("simple",)
    return tuple(sorted((_estimate(comm, collective, p, nbytes, channels) for p in kinds), key=lambda e: e.time_s))


def _estimate(comm: NcclCommunicator, collective: str, protocol: str, nbytes: int, channels: PeerChannels) -> Estimate:
    s_per_byte, words = _slowest(comm, collective, channels)
    s_per_byte *= 2.0 if protocol == "ll" else 1.0
    latency = _latency_us(comm, collective, protocol) * 1e-6
    fill = _fill_bytes(comm, nbytes, channels) * s_per_byte if protocol == "simple" else 0.0
    time = latency + nbytes * s_per_byte + fill
    if time < 2 * latency:
        words = comm.latency_words
    return Estimate("p2p", protocol, channels.each, time, latency, 1 / s_per_byte, words)


def _fill_bytes(comm: NcclCommunicator, nbytes: int, channels: PeerChannels) -> float:
    """A chunk of every channel, which its receiver copies while nothing hides that."""
    return min(chunk_bytes(comm) * max(channels.near, channels.far), nbytes)


def _latency_us(comm: NcclCommunicator, collective: str, protocol: str) -> float:
    """A hop to all peers of the machine at once, and one to the others, which a CPU posts one by one."""
    p = PROTOCOLS.index(protocol)
    near = HOP_LATENCY_us[comm.near("ring")]["ring"][p] + nvlink_hop_us(comm, "ring", protocol)
    far = HOP_LATENCY_us["net"]["tree"][p] + hop_us(comm, protocol)
    there = 1 if collective == "send_recv" else comm.ranks - comm.per_node
    over = far + (there - 1) * comm.posting_us if comm.nodes > 1 else 0.0
    return BASE_LATENCY_us["ring"][p] + (near if comm.per_node > 1 else 0.0) + over


def _slowest(comm: NcclCommunicator, collective: str, channels: PeerChannels) -> tuple[float, str]:
    """Seconds that a byte of the collective's vector takes at the bottleneck, and the bottleneck's text."""
    found = [(load / GBps / 1e9, words) for load, GBps, words in _loads(comm, collective, channels)]
    return max(found)


def _loads(comm: NcclCommunicator, collective: str, channels: PeerChannels) -> Iterator[tuple[float, float, str]]:
    """(bytes for one of the vector, GB/s, text) of each link in a machine that carries data, and of its NICs."""
    machine = comm.cluster.machine
    loads: dict[int, float] = defaultdict(float)
    for a, b, share in _pairs(collective, comm.per_node, comm.ranks):
        for number in gpu_path(machine, a, b).links:
            loads[number] += share
    for a, b in _to_nics(comm, collective):
        for number in paths_of(machine).between(a, b).links:
            loads[number] += (comm.ranks - comm.per_node) / comm.ranks
    for n, load in loads.items():
        link = machine.links[n]
        source, target = machine.devices[link.source], machine.devices[link.target]
        share = PEER_NVLINK_SHARE[comm.generation] if link.kind is LinkKind.NVLINK else 1.0
        words = _LINKS.get(link.kind, "link") + f": {source.name} to {target.name}"
        yield load, link_GBps(link, source, target) * share, words
    if comm.sm:
        yield from _blocks(comm, collective, channels)
    if comm.nodes > 1:
        yield _nics(comm, collective)


def _blocks(comm: NcclCommunicator, collective: str, channels: PeerChannels) -> Iterator[tuple[float, float, str]]:
    """Half of each block's warps send, the other half receive; a channel is a block."""
    each = PEER_BLOCK_GBps[comm.generation]
    alone = collective == "send_recv"
    if comm.per_node > 1:
        load = 1.0 if alone else (comm.per_node - 1) / comm.ranks
        text = f"copying: {count(channels.near, 'block')}, each {each:.3g} GB/s out and in"
        yield load, channels.near * each, text
    if comm.nodes > 1:
        each = min(each, FAR_CHANNEL_GBps)
        load = 1.0 if alone else (comm.ranks - comm.per_node) / comm.ranks
        text = f"copying: {count(channels.far, 'block')} for other machines, each {each:.3g} GB/s out and in"
        yield load, channels.far * each, text


def _pairs(collective: str, per_node: int, ranks: int) -> Iterator[tuple[int, int, float]]:
    """Sender, receiver and share of the vector, within the machine with the most load."""
    if collective == "send_recv":
        yield from ((a, (a + 1) % per_node, 1.0) for a in range(per_node - (ranks > per_node)) if per_node > 1)
    elif collective == "all_to_all":
        yield from ((a, b, 1 / ranks) for a in range(per_node) for b in range(per_node) if a != b)
    else:
        ends = ((a, 0) if collective == "gather" else (0, a) for a in range(1, per_node))
        yield from ((a, b, 1 / ranks) for a, b in ends)


def _to_nics(comm: NcclCommunicator, collective: str) -> Iterator[tuple[int, int]]:
    """(sender, receiver) devices: GPUs and the NICs by which they reach other machines. A GPU takes one of its
    `Paths.nearest_nics`, by its position; channels take NICs by `graphs.system.System.local_nets`, which may be several
    for a GPU."""
    machine = comm.cluster.machine
    if comm.nodes == 1 or collective == "send_recv":
        return
    for position, gpu in enumerate(machine.gpus if collective == "all_to_all" else machine.gpus[:1]):
        near = paths_of(machine).nearest_nics(position)
        nic = machine.nics[near[position % len(near)]]
        if collective != "gather":
            yield gpu, nic
        if collective != "scatter":
            yield nic, gpu


def _nics(comm: NcclCommunicator, collective: str) -> tuple[float, float, str]:
    """The limit of all NICs of a machine for all-to-all, of the NICs near one GPU where one GPU sends or receives
    all."""
    machine, fabric = comm.cluster.machine, comm.cluster.fabric
    assert fabric is not None
    positions = range(len(machine.nics)) if collective == "all_to_all" else paths_of(machine).nearest_nics(0)
    wires = nics_limit(machine, fabric, list(positions))
    GBps = min(wires.GBps, fabric.kernel_Bps / 1e9 * (comm.per_node if collective == "all_to_all" else 1))
    limit = over_network(comm.cluster, collective, Limit(GBps, wires.words), len(positions))
    away = (comm.ranks - comm.per_node) / comm.ranks
    load = {"send_recv": 1.0, "all_to_all": comm.per_node * away}.get(collective, away)
    return load, limit.GBps, limit.words


_LINKS = {
    LinkKind.NVLINK: "NVLink",
    LinkKind.XGMI: "xGMI",
    LinkKind.PCIE: "PCIe",
    LinkKind.CPU: "CPU link",
    LinkKind.C2C: "C2C",
}
