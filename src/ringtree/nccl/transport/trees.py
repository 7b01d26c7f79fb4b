"""Trees, and the switches that reduce: chunks that follow one another through stages."""

from __future__ import annotations

from math import ceil

from ringtree.nccl.transport import figures
from ringtree.nccl.transport.hardware import block_GBps, latency_us, link_limit, named_by_cause, nic_limit
from ringtree.nccl.transport.limit import Limit
from ringtree.nccl.transport.rings import WIRE
from ringtree.nccl.tuning.bandwidth import bandwidth_GBps, steps, switches_GBps, tree_share
from ringtree.nccl.tuning.channels import CHUNK_bytes, chunk_bytes
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.figures import NVLS_TREE_CHANNEL_GBps

TREE_SHARE = 0.92
"""A tree's share of the links' bandwidth (NCCL's tuning.cc)."""
TWO_NODES = 1
"""The column of NCCL's figures for a channel of NVLSTree that no second child slows, as with the network's SHARP."""


def tree_limits(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str) -> list[Limit]:
    """The limit of a tree over the nodes, in bytes of the collective; the blocks' bandwidth is NCCL's own figure."""
    graph = comm.graph_of(algorithm)
    nic = nic_limit(comm, algorithm, protocol)
    limits = [Limit(nic.GBps / WIRE[protocol] / _times_a_nic(comm, algorithm), nic.words)]
    if algorithm in ("nvls", "nvls_tree"):
        return [*limits, *_switch_limits(comm, collective, algorithm)]
    link = named_by_cause(comm, graph, link_limit(comm, graph), nic)
    if algorithm == "tree" and protocol == "simple":
        limits.append(Limit(link.GBps * TREE_SHARE / 2, link.words))
        if comm.rccl:  # nobody publishes the rate of a block of AMD's GPUs
            return limits
        each = block_GBps(comm) * figures.BLOCKS_OF_A_CHANNEL
        copied = Limit(graph.count * each / 2, f"copying: {graph.count} channels of {each:g} GB/s")
        return [*limits, copied]
    words = link.words if protocol == "simple" else f"protocol: {protocol.upper()}"
    return [*limits, Limit(bandwidth_GBps(comm, collective, algorithm, protocol), words)]


def _times_a_nic(comm: NcclCommunicator, algorithm: str) -> float:
    """The times that a node sends the whole vector, of two trees with half each: up and down on two nodes; up, up and
    to two children on four and more. Once where switches reduce."""
    if algorithm not in ("tree", "nvls_tree"):
        return 1.0
    return {1: 1.0, 2: 1.0, 3: 1.5}.get(comm.nodes, 2.0)


def _switch_limits(comm: NcclCommunicator, collective: str, algorithm: str) -> list[Limit]:
    graph = comm.graph_of(algorithm)
    each = figures.NVLS_BLOCK_GBps[comm.generation]
    count = min(comm.nvls_channels, figures.NVLS_BLOCKS[comm.generation])
    words = f"NVLink SHARP: {count} blocks of {each:.1f} GB/s"
    blocks = count * each
    own = bandwidth_GBps(comm, collective, algorithm, "simple")
    if collective != "all_reduce":
        return [Limit(own, words)]
    if comm.nodes > 1:
        column = comm.column if algorithm == "nvls_tree" else TWO_NODES
        sent = graph.count * NVLS_TREE_CHANNEL_GBps[comm.generation][column] * comm.ranks / steps(comm, collective)
        if comm.heads(algorithm) > figures.BOARD_HEADS:  # a rack; published tables of boards reach the blocks' rate
            blocks = min(blocks, switches_GBps(comm, collective, algorithm))
        return [Limit(min(blocks, sent), words)]
    wire = link_limit(comm, graph)
    return [Limit(min(own, blocks), words), Limit(wire.GBps / (1 + 1 / graph.count), wire.words)]


def tree_us(comm: NcclCommunicator, collective: str, algorithm: str, protocol: str, nbytes: int, GBps: float) -> float:
    """Latency, transfer, and the time that fills the stages."""
    latency = latency_us(comm, collective, algorithm, protocol)
    if protocol != "simple" or algorithm.startswith("collnet") or algorithm == "pat":
        alone = algorithm == "tree" and comm.per_node == 1  # no chain of GPUs to fill
        share = 1.0 if alone else tree_share(comm, collective, algorithm, protocol, nbytes)
        return latency + nbytes / (GBps * share) / 1e3
    if algorithm == "tree":
        return latency + nbytes / GBps / 1e3 + _fill_us(comm, nbytes, GBps)
    heads = comm.heads(algorithm)
    chunk = chunk_bytes(comm, algorithm, heads, nbytes)
    loop = chunk * comm.nvls_channels * heads
    posted = max(heads - figures.BOARD_HEADS, 0) + (_posted_again(heads, chunk) if comm.nodes == 1 else 0.0)
    posting = posted * figures.HEAD_us[comm.generation]
    loops = ceil(nbytes / loop) + figures.NVLS_STAGES
    if algorithm == "nvls_tree" and heads > figures.BOARD_HEADS:  # a rack forwards whole loops
        loops += 2 * (comm.nodes - 1).bit_length()
    return latency + loops * (min(loop, nbytes) / GBps / 1e3 + posting)


def _posted_again(heads: int, chunk: int) -> float:
    """A board's heads in a loop that NCCL's efficiency leaves out: it is of the longest chunks, which are posted once
    where shorter ones are posted several times."""
    return min(heads, figures.BOARD_HEADS) * (1 - chunk / CHUNK_bytes)


def _tree_chunk(comm: NcclCommunicator, block_bytes: float) -> float:
    """A tree's chunk with Simple; RCCL's is shorter where a block's bytes would fill the stages a few times only."""
    chunk = comm.settings.buffer_bytes * figures.TREE_STEPS / figures.STEPS
    if not comm.rccl:
        return chunk
    depth = comm.per_node - 1 + comm.nodes.bit_length() - 1
    for times, least in figures.SHORTER_TREE_CHUNKS:
        while block_bytes / chunk < times * depth and chunk > least:
            chunk /= 2
    return chunk


def _fill_us(comm: NcclCommunicator, nbytes: int, GBps: float) -> float:
    """Time of a chunk up and down the tree, but for the hop that transfers: in a machine at a block's copy bandwidth,
    between machines at the bandwidth of all chunks together."""
    blocks = max(comm.channels, 1)
    chunk = min(nbytes / blocks, _tree_chunk(comm, nbytes / blocks))
    near, far = 2 * (comm.per_node - 1), 2 * (comm.nodes - 1).bit_length()
    together = chunk * blocks / GBps / 1e3
    copied = chunk / block_GBps(comm) / 1e3 if comm.sm else together
    return max(near * copied + (far - 1) * together, 0.0)
