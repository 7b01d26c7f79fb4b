"""RCCL's program for short sums on eight GPUs that are joined all to all: each sends each other one its piece, adds
what arrives, and sends the sums. RCCL plays it in place of what its model picks.

Source: ROCm/rccl 0cbce2a, tools/msccl-algorithms/allreduce-allpairs-8n-*-op.xml and src/graph/rome_models.cc
(mscclEnabled in model 79). The ranges of sizes are those of vectors out of place; in place they end at 11 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringtree.machines.machine import LinkKind
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.link_speeds import link_GBps
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.figures import PROTOCOLS, RCCL_BASE_LATENCY_us, RCCL_HOP_LATENCY_us

ALL_PAIRS = "all_pairs"
GPUS = 8
RANGES = ((64 << 10, "ll", 4), ((512 << 10) - 1, "ll", 8), (16 << 20, "simple", 8))
"""The most bytes, the protocol and the channels of each program."""


def all_pairs(comm: NcclCommunicator, collective: str, nbytes: int) -> Iterator[Estimate]:
    """The program's time where RCCL has one: two hops, and a piece over each link twice, by RCCL's own latencies."""
    GBps = _least_link_GBps(comm)
    found = next((known for known in RANGES if nbytes <= known[0]), None)
    if collective != "all_reduce" or not GBps or found is None:
        return
    _, protocol, channels = found
    row = PROTOCOLS.index(protocol)
    latency_us = RCCL_BASE_LATENCY_us[row] + 2 * RCCL_HOP_LATENCY_us["nvlink"]["ring"][row]
    long_GBps = GBps * GPUS / 2 / (2 if protocol == "ll" else 1)
    transfer_us = nbytes / long_GBps / 1e3
    words = comm.latency_words if latency_us > transfer_us else f"xGMI: a piece over each link of {GBps:g} GB/s, twice"
    time_us = latency_us + transfer_us
    yield Estimate(ALL_PAIRS, protocol, channels, time_us * 1e-6, latency_us * 1e-6, long_GBps * 1e9, words)


def _least_link_GBps(comm: NcclCommunicator) -> float:
    """The slowest link between two of the GPUs; 0 where RCCL has no such program."""
    machine = comm.cluster.machine
    if not comm.rccl or comm.nodes > 1 or comm.per_node != GPUS:
        return 0.0
    gpus, least = set(machine.gpus), {}
    for gpu in gpus:
        for link in (machine.links[n] for n in machine.leaving(gpu)):
            if link.kind is LinkKind.XGMI and link.target in gpus:
                least[gpu, link.target] = link_GBps(link, machine.devices[gpu], machine.devices[link.target])
    return min(least.values()) if len(least) == GPUS * (GPUS - 1) else 0.0
