"""Rings: steps in lockstep, each of a chunk that travels in two slices."""

from __future__ import annotations

from math import ceil

from ringtree.nccl.transport.figures import RING_STEPS, SLICES, STEPS, TREE_STEPS, SLICE_bytes
from ringtree.nccl.transport.hardware import block_GBps, crossings, latency_us, link_limit, nic_limit, slice_us
from ringtree.nccl.transport.limit import Limit
from ringtree.nccl.transport.staged import staged
from ringtree.nccl.tuning.bandwidth import bandwidth_GBps, steps
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.latency import parts_us

WIRE = {"ll": 2.0, "ll128": 128 / 120, "simple": 1.0}
"""Bytes on the wire for one of data."""


def ring_limits(comm: NcclCommunicator, collective: str, protocol: str) -> list[Limit]:
    """The ring's limit, in bytes of the collective."""
    graph = comm.graph_of("ring")
    times = comm.ranks / steps(comm, collective)
    chain = collective in ("broadcast", "reduce")
    ends = (nic_limit(comm, "ring", protocol), link_limit(comm, graph, chain))
    limits = [Limit(end.GBps / WIRE[protocol] * times, end.words) for end in ends]
    if protocol == "simple":
        return limits
    own = Limit(bandwidth_GBps(comm, collective, "ring", protocol), f"protocol: {protocol.upper()}")
    return [limits[0], own] if not staged(comm, graph) else [*limits, own]


def ring_us(comm: NcclCommunicator, collective: str, protocol: str, nbytes: int, GBps: float) -> float:
    """Microseconds of a ring: with LL and LL128, latency and transfer. With Simple each slice costs as much as an empty
    one, where that is more than the first slice takes all round with the others behind it; and in a machine each loop
    waits for one slice without overlap (between machines the buffers keep NICs busy)."""
    latency = latency_us(comm, collective, "ring", protocol)
    transfer = nbytes / GBps / 1e3
    if protocol != "simple":
        return latency + transfer
    blocks, step = max(comm.channels, 1), comm.settings.buffer_bytes / STEPS
    if collective in ("broadcast", "reduce"):
        return latency + transfer + _passed_on_us(comm, collective, min(nbytes / blocks, step * TREE_STEPS), GBps)
    base = parts_us(comm, "ring", "simple")[0]
    chunk = min(nbytes / (blocks * comm.ranks), step * RING_STEPS)
    slices = steps(comm, collective) * (SLICES if chunk > SLICE_bytes else 1)
    first = transfer / ceil(nbytes / (step * RING_STEPS * comm.ranks * blocks))
    waits = transfer / slices if comm.nodes == 1 else 0.0
    return base + transfer + max(slices * slice_us(comm), latency - base - first / SLICES) + waits


def _passed_on_us(comm: NcclCommunicator, collective: str, chunk: float, GBps: float) -> float:
    """Time of the first chunk to the ring's last rank, but for the hop that transfers: in a machine at a block's copy
    bandwidth, between machines at the bandwidth of all chunks together."""
    blocks, hops = max(comm.channels, 1), comm.ranks - 2
    far = min(crossings(comm, collective), hops)
    together = chunk * blocks / GBps / 1e3
    near = chunk / block_GBps(comm) / 1e3 if comm.sm else together
    return (hops - far) * (min(near, together) + slice_us(comm)) + far * together
