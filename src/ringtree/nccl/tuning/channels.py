"""NCCL's split of a size: the channels it runs on, and the length of chunks where switches reduce."""

from __future__ import annotations

from ringtree.machines.machine import PathKind
from ringtree.nccl.tuning import figures
from ringtree.nccl.tuning.communicator import BLACKWELL, FAST_NIC_GBps, FASTER_NIC_GBps, NcclCommunicator

KiB = 1 << 10
CHUNK_bytes = 128 * KiB
SHORTER = ((64, 64 * KiB), (8, 32 * KiB), (2, 16 * KiB))
SHORTER_TREE = ((32, 256 * KiB), (16, 128 * KiB), (4, 64 * KiB), (1, 32 * KiB))
"""Down to the second where fewer loops than the first, of all heads and blocks, are to be done."""


def channels(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str, nbytes: int) -> int:
    """All channels, or so few that each channel and each of its threads has its least number of bytes (enqueue.cc)."""
    count = _by_threads(comm, algorithm, protocol, nbytes)
    if algorithm.startswith("collnet") or (algorithm == "nvls" and comm.nodes > 1):
        return count
    times = {"all_reduce": 2, "all_gather": comm.ranks, "reduce_scatter": comm.ranks}.get(collective, 1)
    cell = figures.CHANNEL_TRAFFIC_bytes // (times * (4 if protocol == "ll" else 1))
    own = nbytes // comm.ranks if collective in ("all_gather", "reduce_scatter") else nbytes
    return max(1, min(count, -(-own // max(-(-cell // 16) * 16, 16))))


def _by_threads(comm: NcclCommunicator, algorithm: str, protocol: str, nbytes: int) -> int:
    if algorithm in ("nvls", "nvls_tree"):
        together = algorithm == "nvls" and comm.nodes > 1
        return min(comm.nvls_channels, comm.channels) if together else comm.nvls_channels
    if algorithm == "collnet_direct":
        return _collnet_direct(comm, nbytes)
    least = threads(comm, algorithm, protocol) * thread_bytes(comm, algorithm, protocol)
    return max(1, min(comm.channels, nbytes // least))


def threads(comm: NcclCommunicator, algorithm: str, protocol: str) -> int:
    """Threads of a channel, at most."""
    ring = comm.graph("ring")
    if (algorithm, protocol) == ("ring", "simple") and ring is not None:
        if ring.count * ring.intra_Bps <= figures.PCI_GBps * 1e9:
            return figures.FEW_THREADS
    return figures.THREADS[protocol] if algorithm in ("ring", "tree") else 640


def thread_bytes(comm: NcclCommunicator, algorithm: str, protocol: str) -> int:
    """Bytes that a thread should have at least."""
    if algorithm in ("collnet_direct", "collnet_chain"):
        return figures.COLLNET_THREAD_BYTES
    return figures.THREAD_BYTES[protocol] * (comm.ranks if (algorithm, protocol) == ("ring", "ll") else 1)


def _collnet_direct(comm: NcclCommunicator, nbytes: int) -> int:
    heads = comm.heads("collnet_direct")
    count, least, few = comm.channels, figures.COLLNET_THREAD_BYTES, 16
    short = True
    while few >= 1 and short:
        while (short := nbytes < count * 640 * heads * least) and count > few:
            if count == few + few // 2:
                least //= 2
            count -= 1
        few //= 2
    return count


def chunk_bytes(comm: NcclCommunicator, algorithm: str, heads: int, nbytes: int) -> int:
    """Bytes of each head in a loop on each block, where switches reduce (enqueue.cc)."""
    configured, share = comm.settings.nvls_chunk_bytes, nbytes / (comm.nvls_channels * heads)
    if algorithm != "nvls_tree":
        return _shortened(configured or CHUNK_bytes, SHORTER, share)
    near = comm.graph_of(algorithm).inter <= PathKind.PXB
    longest = configured or tree_chunk_bytes(comm.sm, comm.nodes, comm.per_node, comm.nic_GBps, near)
    return _shortened(longest, SHORTER_TREE, share)


def _shortened(chunk: int, shorter: tuple[tuple[int, int], ...], share: float) -> int:
    for loops, less in shorter:
        if chunk > less and share < loops * chunk:
            chunk = less
    return chunk


def tree_chunk_bytes(sm: int, nodes: int, per_node: int, nic_GBps: float, near_nic: bool) -> int:
    """The longest chunk of NVLSTree (nvls.cc). `near_nic`: no CPU between a GPU and its NIC."""
    if sm < BLACKWELL or nic_GBps < FAST_NIC_GBps:
        return 64 * KiB if nodes >= 4 else 128 * KiB
    if nodes == 2:
        if per_node <= 4:
            return 256 * KiB
        slow = per_node >= 16 or (per_node <= 8 and near_nic and nic_GBps < FASTER_NIC_GBps)
        return 64 * KiB if slow else 128 * KiB
    if nic_GBps >= FASTER_NIC_GBps:
        return 256 * KiB if per_node <= 8 else (128 if per_node < 32 else 64) * KiB
    return 64 * KiB if near_nic else 128 * KiB
