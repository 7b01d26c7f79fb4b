"""How long chunks are where switches reduce (enqueue.cc)."""

from __future__ import annotations

from ringtree.machines.machine import PathKind
from ringtree.nccl.tuning.communicator import Communicator
from ringtree.nccl.tuning.switch_blocks import KiB, tree_chunk_bytes

CHUNK_bytes = 128 * KiB
SHORTER = ((64, 64 * KiB), (8, 32 * KiB), (2, 16 * KiB))
SHORTER_TREE = ((32, 256 * KiB), (16, 128 * KiB), (4, 64 * KiB), (1, 32 * KiB))
"""Down to the second where fewer loops than the first, of all heads and blocks, are to be done."""


def chunk_bytes(comm: Communicator, algorithm: str, heads: int, nbytes: int) -> int:
    """What each head has of a loop on each block."""
    told, share = comm.settings.nvls_chunk_bytes, nbytes / (comm.nvls_channels * heads)
    if algorithm != "nvls_tree":
        return _shortened(told or CHUNK_bytes, SHORTER, share)
    graph = comm.graph(algorithm)
    near = graph is not None and graph.inter <= PathKind.PXB
    longest = told or tree_chunk_bytes(comm.sm, comm.nodes, comm.per_node, comm.nic_GBps, near)
    return _shortened(longest, SHORTER_TREE, share)


def _shortened(chunk: int, shorter: tuple[tuple[int, int], ...], share: float) -> int:
    for loops, less in shorter:
        if chunk > less and share < loops * chunk:
            chunk = less
    return chunk
