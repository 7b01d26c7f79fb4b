"""The latency NCCL expects of an algorithm and a protocol."""

from __future__ import annotations

from ringtree.nccl.tuning.bandwidth import steps
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.figures import (
    PROTOCOLS,
    BASE_LATENCY_us,
    HOP_LATENCY_us,
    RCCL_BASE_LATENCY_us,
    RCCL_HOP_LATENCY_us,
)


def latency_us(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str, nbytes: int) -> float:
    """Latency at a size: a ring's grows with long sizes."""
    base, intra, inter = parts_us(comm, algorithm, protocol)
    graph = comm.graph_of(algorithm)
    nic_us = max(graph.inter_latency_s * 1e6, comm.settings.latency_us)
    inter += nic_us * 2 + comm.settings.simple_us if protocol == "simple" else nic_us
    if algorithm == "ring":
        return _ring_us(comm, collective, protocol, nbytes, base, intra, inter)
    return staged_us(comm, algorithm, base, intra, inter)


def staged_us(comm: NcclCommunicator, algorithm: str, base: float, intra: float, inter: float) -> float:
    """Latency of all but rings, from the cost of a call, of a hop in a machine, and of a hop between machines."""
    levels, others = comm.nodes.bit_length() - 1, comm.per_node - 1
    if algorithm == "tree":
        return base + 2 * (others * intra + levels * inter)
    if algorithm == "collnet_direct":
        return base + 2 * (min(1, others) * intra + others * 0.4) + inter
    if algorithm == "collnet_chain":
        return base + 2 * others * intra + inter
    if algorithm == "nvls":
        return intra + (inter if comm.nodes > 1 else 0.0)
    if algorithm == "nvls_tree":
        return base + intra + 2 * levels * inter
    return base + levels * (inter / 3.5) + comm.ranks * 2.8


def parts_us(comm: NcclCommunicator, algorithm: str, protocol: str) -> tuple[float, float, float]:
    """Latency of a call, of a hop in a machine, and of a hop between machines without the NIC's own latency."""
    p = PROTOCOLS.index(protocol)
    if comm.rccl:
        hops = RCCL_HOP_LATENCY_us
        return RCCL_BASE_LATENCY_us[p], hops[comm.near(algorithm)][algorithm][p], hops["net"][algorithm][p]
    inter = HOP_LATENCY_us["net"]["tree" if comm.per_node == 1 else algorithm][p]
    near = comm.near(algorithm)
    intra = HOP_LATENCY_us[near][algorithm][p]
    if near == "pci" and comm.cpu == "ibm" and (algorithm, protocol) == ("tree", "simple"):
        intra = HOP_LATENCY_us["pci"]["ring"][p]
    return BASE_LATENCY_us[algorithm][p], intra, inter


def _ring_us(
    comm: NcclCommunicator, collective: str, protocol: str, nbytes: int, base: float, intra: float, inter: float
) -> float:
    graph = comm.graph_of("ring")
    p = PROTOCOLS.index(protocol)
    if collective in ("broadcast", "reduce"):
        table = (RCCL_HOP_LATENCY_us if comm.rccl else HOP_LATENCY_us)[comm.near("ring") if comm.nodes == 1 else "net"]
        if graph.same:
            return base + table["ring"][p]
        return base + steps(comm, collective) * table["tree" if protocol == "simple" else "ring"][p]
    if comm.nodes > 1:
        intra = max(intra, comm.posting_us * (3 if protocol == "simple" else 1))
    far = 0 if comm.nodes == 1 else (comm.nodes - 1) * (2 if collective == "all_reduce" else 1)
    latency = base + (steps(comm, collective) - far) * intra + far * inter
    long = nbytes // (max(comm.channels, 1) * comm.ranks) >= 64
    if protocol == "simple" and comm.nodes > 1 and collective == "all_reduce" and long and not comm.rccl:
        latency *= 1.9 if comm.sm < 80 else 1.4
    return latency
