"""The bandwidth NCCL expects of an algorithm and a protocol at length."""

from __future__ import annotations

from ringtree.machines.channels import Channels, Pattern
from ringtree.nccl.tuning import figures
from ringtree.nccl.tuning.communicator import NcclCommunicator


def steps(comm: NcclCommunicator, collective: str) -> int:
    """Number of sends of each rank of a ring."""
    return {"all_reduce": 2 * (comm.ranks - 1), "all_gather": comm.ranks - 1, "reduce_scatter": comm.ranks - 1}.get(
        collective, comm.ranks
    )


def bandwidth_GBps(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str) -> float:
    """The algorithm bandwidth in GB/s (bytes of the collective), before corrections by size."""
    bus = _bus_GBps(comm, collective, algorithm, protocol)
    if collective in ("all_gather", "reduce_scatter") and algorithm != "ring":
        return bus
    if algorithm in ("ring", "nvls", "nvls_tree"):
        return bus * comm.ranks / steps(comm, collective)
    return bus * 0.5


def _bus_GBps(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str) -> float:
    graph = comm.graph_of(algorithm)
    if algorithm in ("nvls", "nvls_tree"):
        return _nvls_GBps(comm, graph, collective, algorithm)
    within = comm.nodes <= 2 or algorithm in ("collnet_direct", "collnet_chain")
    bus = graph.count * (graph.intra_Bps if within else graph.inter_Bps) / 1e9
    if comm.rccl:
        return bus * figures.RCCL_SHARE[algorithm][comm.nodes > 2][figures.PROTOCOLS.index(protocol)]
    if algorithm == "ring":
        return _ring_GBps(comm, graph, bus, protocol)
    if algorithm == "tree":
        return _tree_GBps(comm, graph, bus, protocol)
    if algorithm == "pat":
        return bus * 0.75
    if algorithm == "collnet_direct":
        return _collnet_direct_GBps(comm, graph, bus, collective)
    return bus


def _ring_GBps(comm: NcclCommunicator, graph: Channels, bus: float, protocol: str) -> float:
    if protocol == "ll":
        return min(_ll_max(comm), bus * 0.5)
    if protocol == "ll128":
        return min(bus * 0.92, graph.count * figures.RING_LL128_CHANNEL_GBps[comm.generation][comm.column])
    return bus


def _tree_GBps(comm: NcclCommunicator, graph: Channels, bus: float, protocol: str) -> float:
    bus = min(bus * 0.92, graph.count * figures.TREE_CHANNEL_GBps[comm.generation][comm.column])
    if protocol == "ll":
        bus = min(bus / 3.8, _ll_max(comm))
    if protocol == "ll128":
        share = 7.0 / 9.0 if comm.nodes == 1 else 120.0 / 128.0
        bus = min(bus * share, graph.count * figures.TREE_LL128_CHANNEL_GBps[comm.generation][comm.column])
    return bus * 0.85 if graph.pattern is Pattern.TREE else bus


def _nvls_GBps(comm: NcclCommunicator, graph: Channels, collective: str, algorithm: str) -> float:
    each = _in_node_GBps(comm, graph, collective)
    if comm.nodes > 1:
        each = min(each, graph.inter_Bps / 1e9 * (2 if comm.nodes == 2 and algorithm == "nvls_tree" else 1))
    if algorithm == "nvls_tree":
        each = min(each, figures.NVLS_TREE_CHANNEL_GBps[comm.generation][comm.column])
    return graph.count * each


def _in_node_GBps(comm: NcclCommunicator, graph: Channels, collective: str) -> float:
    """A channel's bandwidth through a node's switches."""
    intra = graph.intra_Bps / 1e9 * figures.NVLS_EFFICIENCY[comm.generation] * (graph.count - 1) / graph.count
    return intra * (2 if collective == "all_reduce" else (comm.per_node - 1) / comm.per_node)


def switches_GBps(comm: NcclCommunicator, collective: str, algorithm: str) -> float:
    """The algorithm bandwidth in GB/s of the channels through a node's switches, whatever joins the nodes."""
    graph = comm.graph_of(algorithm)
    return graph.count * _in_node_GBps(comm, graph, collective) * comm.ranks / steps(comm, collective)


def _collnet_direct_GBps(comm: NcclCommunicator, graph: Channels, bus: float, collective: str) -> float:
    if collective != "all_reduce":
        return comm.per_node * min(graph.intra_Bps, graph.inter_Bps * 0.9) / 1e9
    factor = comm.per_node / graph.count
    bus /= factor - (factor - 1) / 2
    return bus * 0.85 if comm.sm >= 90 else bus


def _ll_max(comm: NcclCommunicator) -> float:
    row = comm.generation if comm.nodes == 1 else int(comm.cpu == "amd")
    return figures.LL_MAX_GBps[row][comm.column]


def correction(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str, nbytes: int) -> float:
    """The share of the bandwidth that NCCL expects at a size."""
    if not comm.rccl:
        return tree_share(comm, collective, algorithm, protocol, nbytes)
    if algorithm == "ring" and comm.nodes == 1:
        return 1.0
    row = figures.RCCL_CORRECTION_tenths[algorithm][protocol]
    return row[min(max((nbytes >> 6).bit_length() - 1, 0), len(row) - 1)] / 10


def tree_share(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str, nbytes: int) -> float:
    """The share of the bandwidth that a tree reaches at a size, by NVIDIA's figures."""
    column = (nbytes >> 6).bit_length() - 1
    if collective != "all_reduce" or column < 0:
        return 1.0
    if (algorithm == "tree" and column < 23) or (
        algorithm == "nvls_tree" and column < 24 and comm.sm >= 100 and comm.cpu in ("intel", "amd")
    ):
        return figures.TREE_CORRECTION_tenths[protocol][column] / 10
    return 1.0
