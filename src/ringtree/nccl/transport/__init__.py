"""NCCL's algorithms on the hardware: links, NICs, fabrics, the blocks that copy, and pipelines that fill."""

from __future__ import annotations

from collections.abc import Mapping

from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.nics import as_shown
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.transport.exchange import EXCHANGES, exchange
from ringtree.nccl.transport.hardware import latency_us
from ringtree.nccl.transport.rings import ring_limits, ring_us
from ringtree.nccl.transport.trees import tree_limits, tree_us
from ringtree.nccl.tuning.channels import channels
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.enabled import candidates

__all__ = ["estimates"]


def estimates(
    cluster: Cluster,
    graphs: Mapping[Pattern, Channels],
    collective: str,
    nbytes: int,
    only: tuple[str, str] | None = None,
) -> tuple[Estimate, ...]:
    """The candidates NCCL has there, as `nccl.tuning.estimates`, the fastest first by the model of the hardware; and
    for all_to_all, gather, scatter and send_recv (each rank to the next) its sends and receives, as algorithm `p2p`.
    `only`: of NCCL's candidates that algorithm with that protocol alone."""
    comm = NcclCommunicator(as_shown(cluster), graphs)
    if collective in EXCHANGES:
        return exchange(comm, collective, nbytes)
    return candidates(comm, collective, nbytes, _estimate, only)


def _estimate(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str, nbytes: int) -> Estimate:
    blocks = channels(comm, collective, algorithm, protocol, nbytes)
    latency = latency_us(comm, collective, algorithm, protocol)
    if algorithm == "ring":
        least = min(ring_limits(comm, collective, protocol), key=lambda limit: limit.GBps)
        time, least_time = (ring_us(comm, collective, protocol, n, least.GBps) for n in (nbytes, 1))
    else:
        least = min(tree_limits(comm, collective, algorithm, protocol), key=lambda limit: limit.GBps)
        time, least_time = (tree_us(comm, collective, algorithm, protocol, n, least.GBps) for n in (nbytes, 1))
    words = least.words if time > 2 * max(latency, least_time) else comm.latency_words
    return Estimate(algorithm, protocol, blocks, time * 1e-6, latency * 1e-6, least.GBps * 1e9, words)
