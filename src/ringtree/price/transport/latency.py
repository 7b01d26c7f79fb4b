"""What a size of nothing takes: NCCL's own latencies, and what the fabric adds to them."""

from __future__ import annotations

from ringtree.price.nccl.communicator import Communicator
from ringtree.price.nccl.figures import BASE_LATENCY_us, HOP_LATENCY_us, PROTOCOLS
from ringtree.price.nccl.latency import latency_us as nccl_latency_us
from ringtree.price.transport.figures import DIRECT_TCP_us, NET_LATENCY_us


def hop_us(comm: Communicator, protocol: str) -> float:
    """What a hop between machines takes here beyond what NCCL takes it for, on InfiniBand. With Simple the receiver
    says first that it is ready, so the wire is crossed twice."""
    if comm.nodes == 1 or comm.cluster.fabric is None:
        return 0.0
    if protocol == "simple" and comm.cluster.fabric.name in DIRECT_TCP_us:
        return DIRECT_TCP_us[comm.cluster.fabric.name]
    extra = comm.cluster.fabric.latency_s * 1e6 - NET_LATENCY_us
    return max(extra, 0.0) * (2 if protocol == "simple" else 1)


def slice_us(comm: Communicator) -> float:
    """What a slice of nothing takes in a ring: to wait for it, and to say that it is there."""
    return HOP_LATENCY_us[comm.near("ring")]["ring"][PROTOCOLS.index("simple")]


def crossings(comm: Communicator, collective: str, algorithm: str) -> int:
    """How often the longest way goes over the network."""
    if comm.nodes == 1:
        return 0
    levels = (comm.nodes - 1).bit_length()
    if algorithm == "ring":
        return 2 * comm.nodes - 1 if collective == "all_reduce" else comm.nodes
    if algorithm in ("tree", "nvls_tree"):
        return 2 * levels
    return levels if algorithm == "pat" else 1


def latency_us(comm: Communicator, collective: str, algorithm: str, protocol: str, nbytes: int) -> float:
    """Of the whole collective. A ring's hops are counted as they are: NCCL spreads those between machines over all."""
    extra = crossings(comm, collective, algorithm) * hop_us(comm, protocol)
    if algorithm == "ring" and collective in ("all_gather", "reduce_scatter", "all_reduce"):
        return _ring_us(comm, collective, protocol) + extra
    return nccl_latency_us(comm, collective, algorithm, protocol, nbytes) + extra


def _ring_us(comm: Communicator, collective: str, protocol: str) -> float:
    p = PROTOCOLS.index(protocol)
    hops = (comm.ranks - 1) * (2 if collective == "all_reduce" else 1)
    far = min(crossings(comm, collective, "ring"), hops)
    near_us, far_us = HOP_LATENCY_us[comm.near("ring")]["ring"][p], HOP_LATENCY_us["net"]["tree"][p]
    return BASE_LATENCY_us["ring"][p] + (hops - far) * near_us + far * far_us
