"""What a size of nothing takes: NCCL's own latencies, and what the fabric adds to them."""

from __future__ import annotations

from ringtree.nccl.transport.figures import NET_LATENCY_us
from ringtree.nccl.tuning.communicator import Communicator
from ringtree.nccl.tuning.latency import parts_us, staged_us


def hop_us(comm: Communicator, protocol: str) -> float:
    """What a hop between machines takes here beyond what NCCL takes it for, on InfiniBand. With Simple the receiver
    says first that it is ready, so the wire is crossed twice."""
    if comm.nodes == 1 or comm.cluster.fabric is None:
        return 0.0
    if protocol == "simple" and comm.settings.simple_us:
        return comm.settings.simple_us
    extra = comm.cluster.fabric.latency_s * 1e6 - NET_LATENCY_us
    return max(extra, 0.0) * (2 if protocol == "simple" else 1)


def slice_us(comm: Communicator) -> float:
    """What a slice of nothing takes in a ring: to wait for it, and to say that it is there."""
    return parts_us(comm, "ring", "simple")[1]


def crossings(comm: Communicator, collective: str) -> int:
    """How often the longest way round a ring goes over the network."""
    if comm.nodes == 1:
        return 0
    return 2 * comm.nodes - 1 if collective == "all_reduce" else comm.nodes


def latency_us(comm: Communicator, collective: str, algorithm: str, protocol: str) -> float:
    """Of the whole collective. A ring's hops between machines are counted as they are, and cost what a tree's do:
    NCCL spreads them over all."""
    base, intra, inter = parts_us(comm, algorithm, protocol)
    if algorithm != "ring":
        return staged_us(comm, algorithm, base, intra, inter + hop_us(comm, protocol))
    hops = (comm.ranks - 1) * (2 if collective == "all_reduce" else 1)
    far = min(crossings(comm, collective), hops)
    over = parts_us(comm, "tree", protocol)[2] + hop_us(comm, protocol)
    if comm.nodes > 1:  # a CPU posts a message at each step
        intra = max(intra, comm.posting_us * (3 if protocol == "simple" else 1))
    return base + (hops - far) * intra + far * over
