"""Rings: steps in lockstep, each of a chunk that travels in two slices."""

from __future__ import annotations

from ringtree.price.nccl.bandwidth import bandwidth_GBps, steps
from ringtree.price.nccl.communicator import Communicator
from ringtree.price.nccl.figures import BASE_LATENCY_us, PROTOCOLS
from ringtree.price.transport.figures import RING_CHUNK_bytes, SLICES, TREE_CHUNK_bytes
from ringtree.price.transport.hardware import Limit, link_limit, nic_limit
from ringtree.price.transport.latency import latency_us, slice_us

WIRE = {"ll": 2.0, "ll128": 128 / 120, "simple": 1.0}
"""Bytes on the wire for one of data."""


def ring_limits(comm: Communicator, collective: str, protocol: str) -> list[Limit]:
    """What a ring is limited by, in bytes of the collective."""
    graph = comm.graph("ring")
    assert graph is not None
    times = comm.ranks / steps(comm, collective)
    nic = nic_limit(comm, "ring", protocol)
    limits = [Limit(nic.GBps / WIRE[protocol] * times, nic.words)]
    if protocol != "simple":
        limits.append(Limit(bandwidth_GBps(comm, collective, "ring", protocol), f"protocol: {protocol.upper()}"))
        return limits
    link = link_limit(comm, graph)
    return [*limits, Limit(link.GBps * times, link.words)]


def ring_us(comm: Communicator, collective: str, protocol: str, nbytes: int, blocks: int, GBps: float) -> float:
    """With LL and LL128, latency and transfer. With Simple a loop takes as many chunks as steps, each slice of them
    what a slice costs besides, and one slice more that nothing hides; or, where hops are long, what the first slice
    takes all round and the others behind it."""
    latency = latency_us(comm, collective, "ring", protocol, nbytes)
    if protocol != "simple":
        return latency + nbytes / GBps / 1e3
    if collective in ("broadcast", "reduce"):
        chunk = min(nbytes / blocks, TREE_CHUNK_bytes)
        return latency + nbytes / GBps / 1e3 + (comm.ranks - 2) * (chunk * blocks / GBps / 1e3 + slice_us(comm))
    base = BASE_LATENCY_us["ring"][PROTOCOLS.index("simple")]
    slices = steps(comm, collective) * SLICES
    whole, rest = divmod(nbytes, RING_CHUNK_bytes * comm.ranks * blocks)
    transfer = nbytes / GBps / 1e3
    first = (nbytes if not whole else nbytes / (whole + 1)) / GBps / 1e3
    round_us = latency - base + first / SLICES
    return base + transfer + max(slices * slice_us(comm), round_us - first) + transfer / slices
