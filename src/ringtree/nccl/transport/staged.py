"""Rings of GPUs without peer access, whose data pass through the host's memory."""

from __future__ import annotations

from functools import lru_cache

from ringtree.machines.channels import Channels
from ringtree.machines.machine import LinkKind, Machine, PathKind
from ringtree.machines.paths import Path, p2p, paths_of
from ringtree.nccl.transport.figures import HOST_BLOCK_GBps
from ringtree.nccl.transport.limit import Limit
from ringtree.nccl.transport.shared_links import channel_GBps, hops
from ringtree.nccl.tuning.communicator import NcclCommunicator


def staged(comm: NcclCommunicator, graph: Channels) -> bool:
    """Whether GPUs that are neighbours in a channel have no peer access, so that their data are staged in the host's
    memory."""
    if graph.intra < PathKind.PIX or comm.per_node == 1:
        return False
    return not all(_direct(comm.cluster.machine, a, b) for a, b in set(hops(graph.orders, closed=False)))


_HOST = "through the host's memory, GPUs without P2P"
_WORDS = {LinkKind.CPU: f"CPU link: {_HOST}"}


def staged_limit(comm: NcclCommunicator, graph: Channels, chain: bool) -> Limit:
    """Bandwidth of all channels together. `chain`: rings are not closed, as in broadcast and reduce. Between machines
    the search has shared the links out with the way to the NICs, so no channel is faster than found."""
    each, kind = channel_GBps(comm.cluster, graph.orders, chain)
    limit = Limit(graph.count * each, _WORDS.get(kind, f"PCIe: {_HOST}"))
    if comm.nodes > 1:
        limit = Limit(min(limit.GBps, graph.count * graph.intra_Bps / 1e9), limit.words)
    copied = comm.channels * HOST_BLOCK_GBps
    return min(limit, Limit(copied, f"copying {_HOST}: {comm.channels} blocks of {HOST_BLOCK_GBps:g} GB/s"))


def gpu_path(machine: Machine, a: int, b: int) -> Path:
    """The path of data between GPUs by local rank: through a CPU where they have no peer access, and there is one."""
    paths = paths_of(machine)
    if not _direct(machine, a, b):
        path = paths.through_cpu(machine.gpus[a], machine.gpus[b])
        if path.kind is not PathKind.DIS:
            return path
    return paths.gpus(a, b)


@lru_cache(maxsize=1024)
def _direct(machine: Machine, a: int, b: int) -> bool:
    return p2p(paths_of(machine), a, b).applies
