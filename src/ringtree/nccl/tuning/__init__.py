"""NCCL's own tuning model in closed form: the times that NCCL expects, by which it picks. `nccl.transport` computes the
pick's time on the hardware."""

from __future__ import annotations

from collections.abc import Mapping

from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.nics import as_shown
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.tuning.bandwidth import bandwidth_GBps, correction
from ringtree.nccl.tuning.channels import channels
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.enabled import COLLECTIVES, candidates
from ringtree.nccl.tuning.latency import latency_us

__all__ = ["COLLECTIVES", "estimates", "pick"]


def estimates(
    cluster: Cluster, graphs: Mapping[Pattern, Channels], collective: str, nbytes: int
) -> tuple[Estimate, ...]:
    """All candidates that NCCL would consider, the fastest first. `nbytes` counts as nccl-tests' size column does (all
    ranks' parts together for all_gather and reduce_scatter). Empty for collectives that NCCL sends and receives without
    a model of them."""
    return candidates(NcclCommunicator(as_shown(cluster), graphs), collective, nbytes, _estimate)


def pick(cluster: Cluster, graphs: Mapping[Pattern, Channels], collective: str, nbytes: int) -> Estimate | None:
    """NCCL's pick; None where NCCL has no choice to make."""
    return next(iter(estimates(cluster, graphs, collective, nbytes)), None)


def _estimate(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str, nbytes: int) -> Estimate:
    long = bandwidth_GBps(comm, collective, algorithm, protocol)
    here = long * correction(comm, collective, algorithm, protocol, nbytes)
    latency = latency_us(comm, collective, algorithm, protocol, nbytes)
    transfer = nbytes / (1000 * here)
    return Estimate(
        algorithm=algorithm,
        protocol=protocol,
        channels=channels(comm, collective, algorithm, protocol, nbytes),
        time_s=(latency + transfer) * 1e-6,
        latency_s=latency * 1e-6,
        bandwidth_Bps=long * 1e9,
        bottleneck=comm.latency_words if latency > transfer else _bandwidth(comm, algorithm),
    )


def _bandwidth(comm: NcclCommunicator, algorithm: str) -> str:
    graph = comm.graph_of(algorithm)
    each = graph.intra_Bps if comm.nodes == 1 else min(graph.intra_Bps, graph.inter_Bps or graph.intra_Bps)
    return f"{algorithm}: {graph.count} channels of {each / 1e9:g} GB/s"
