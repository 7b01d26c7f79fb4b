"""The algorithms and protocols that NCCL has for a collective, and where each is enabled."""

from __future__ import annotations

from collections.abc import Callable

from ringtree.machines.machine import PathKind
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.releases import FIRST
from ringtree.nccl.tuning.all_pairs import ALL_PAIRS, all_pairs
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.figures import ALGORITHMS, MAX_DIRECT_RANKS, MAX_NVLS_ARITY, PROTOCOLS

COLLECTIVES = {
    "all_reduce": ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree"),
    "all_gather": ("ring", "collnet_direct", "nvls", "pat"),
    "reduce_scatter": ("ring", "collnet_direct", "nvls", "pat"),
    "broadcast": ("ring",),
    "reduce": ("ring",),
}
"""The collectives that the model has figures for. Others are sends and receives, which NCCL does not price."""


def candidates(
    comm: NcclCommunicator,
    collective: str,
    nbytes: int,
    estimate: Callable[[NcclCommunicator, str, str, str, int], Estimate],
    only: tuple[str, str] | None = None,
) -> tuple[Estimate, ...]:
    """One for each algorithm and protocol that NCCL would consider, and RCCL's program, the fastest first. `only`: of
    this algorithm with this protocol alone."""
    found = [
        estimate(comm, collective, algorithm, protocol, nbytes)
        for algorithm in ALGORITHMS
        for protocol in PROTOCOLS
        if only in (None, (algorithm, protocol)) and enabled(comm, collective, algorithm, protocol)
    ]
    if only is None or only[0] == ALL_PAIRS:
        found.extend(all_pairs(comm, collective, nbytes))
    return tuple(sorted(found, key=lambda e: e.time_s))


def enabled(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str) -> bool:
    """Whether NCCL would consider the algorithm with the protocol, no variable set but by the fabric's plugin."""
    graph = comm.graph(algorithm)
    if graph is None or algorithm not in COLLECTIVES.get(collective, ()):
        return False
    if protocol != "simple" and algorithm not in ("ring", "tree"):
        return False
    if comm.release < FIRST.get(algorithm, comm.release):
        return False
    if algorithm not in comm.settings.algorithms or protocol not in comm.settings.protocols:
        return False
    if comm.rccl and not _rccl(comm, algorithm, protocol):
        return False
    if protocol == "ll128" and not _ll128(comm, algorithm):
        return False
    if algorithm == "pat":
        return comm.per_node == 1 and comm.nodes > 1 and comm.sm >= 60
    if algorithm in ("nvls", "nvls_tree"):
        return _nvls(comm, collective, algorithm)
    if algorithm in ("collnet_direct", "collnet_chain"):
        return _collnet(comm, collective, algorithm)
    return True


def _rccl(comm: NcclCommunicator, algorithm: str, protocol: str) -> bool:
    """Rings and trees; LL128 on the MI200 alone, and no tree with Simple on a single node."""
    if algorithm not in ("ring", "tree") or protocol == "ll128":
        return False
    return not (algorithm == "tree" and protocol == "simple" and comm.nodes == 1)


def _ll128(comm: NcclCommunicator, algorithm: str) -> bool:
    graph = comm.graph_of(algorithm)
    far = PathKind.PXN if comm.sm >= 90 else PathKind.PXB
    return (
        comm.sm >= 70
        and (comm.nodes == 1 or graph.inter <= far)
        and graph.intra <= PathKind.NVB
        and (comm.like or comm.sm >= 90)
    )


def _nvls(comm: NcclCommunicator, collective: str, algorithm: str) -> bool:
    """The switch reduces from Hopper on. Over several nodes the tree needs nothing more, the other one CollNet."""
    graph = comm.graph_of(algorithm)
    if comm.sm < 90 or not comm.nvswitch or graph.count < 2:
        return False
    if algorithm == "nvls_tree":
        return comm.nodes > 1
    if collective != "all_reduce" and comm.per_node > MAX_NVLS_ARITY:
        return False
    return comm.nodes == 1 or (comm.cluster.sharp and (collective == "all_reduce" or _a_head_each(comm)))


def _collnet(comm: NcclCommunicator, collective: str, algorithm: str) -> bool:
    """Switches of the network that reduce; NCCL has no such algorithm on a single node."""
    if not comm.cluster.sharp or comm.nodes == 1 or comm.per_node > MAX_DIRECT_RANKS:
        return False
    if algorithm == "collnet_chain":
        return True
    return comm.nvswitch and (collective == "all_reduce" or _a_head_each(comm))


def _a_head_each(comm: NcclCommunicator) -> bool:
    """All-gather and reduce-scatter want a NIC for each GPU."""
    return comm.per_node <= len(comm.cluster.machine.nics)
