"""How many channels NCCL runs a size on."""

from __future__ import annotations

from ringtree.nccl.tuning import figures
from ringtree.nccl.tuning.communicator import Communicator


def channels(comm: Communicator, collective: str, algorithm: str, protocol: str, nbytes: int) -> int:
    """All of them, or so few that each and each of their threads has its least (enqueue.cc)."""
    count = _by_threads(comm, algorithm, protocol, nbytes)
    if algorithm.startswith("collnet") or (algorithm == "nvls" and comm.nodes > 1):
        return count
    times = {"all_reduce": 2, "all_gather": comm.ranks, "reduce_scatter": comm.ranks}.get(collective, 1)
    cell = figures.CHANNEL_TRAFFIC_bytes // (times * (4 if protocol == "ll" else 1))
    own = nbytes // comm.ranks if collective in ("all_gather", "reduce_scatter") else nbytes
    return max(1, min(count, -(-own // max(-(-cell // 16) * 16, 16))))


def _by_threads(comm: Communicator, algorithm: str, protocol: str, nbytes: int) -> int:
    if algorithm in ("nvls", "nvls_tree"):
        together = algorithm == "nvls" and comm.nodes > 1
        return min(comm.nvls_channels, comm.channels) if together else comm.nvls_channels
    if algorithm == "collnet_direct":
        return _collnet_direct(comm, nbytes)
    least = threads(comm, algorithm, protocol) * thread_bytes(comm, algorithm, protocol)
    return max(1, min(comm.channels, nbytes // least))


def threads(comm: Communicator, algorithm: str, protocol: str) -> int:
    """Of a channel, at most."""
    ring = comm.graph("ring")
    if (algorithm, protocol) == ("ring", "simple") and ring is not None:
        if ring.count * ring.intra_Bps <= figures.PCI_GBps * 1e9:
            return figures.FEW_THREADS
    return figures.THREADS[protocol] if algorithm in ("ring", "tree") else 640


def thread_bytes(comm: Communicator, algorithm: str, protocol: str) -> int:
    """What a thread should have at least."""
    if algorithm in ("collnet_direct", "collnet_chain"):
        return figures.COLLNET_THREAD_BYTES
    return figures.THREAD_BYTES[protocol] * (comm.ranks if (algorithm, protocol) == ("ring", "ll") else 1)


def _collnet_direct(comm: Communicator, nbytes: int) -> int:
    graph = comm.graph("collnet_direct")
    assert graph is not None
    heads = len({order[0] for order in graph.orders})
    count, least, few = comm.channels, figures.COLLNET_THREAD_BYTES, 16
    short = True
    while few >= 1 and short:
        while (short := nbytes < count * 640 * heads * least) and count > few:
            if count == few + few // 2:
                least //= 2
            count -= 1
        few //= 2
    return count
