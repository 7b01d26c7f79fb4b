"""The network between hosts, measured by messages between one rank of each of two hosts."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from ringtree.bench.pair import PairEffort, answer, measure
from ringtree.price.hosts import NetworkCost

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

EFFORT = PairEffort(
    trips=200, warmup=20, sizes=tuple(1 << p for p in range(20, 25)), repetitions=3, seconds=5.0, streams=60
)
"""1 to 16 MiB: where a link lets a burst pass, most are longer than that."""
MOST_PEERS = 8


def measure_network(comm: Communicator, source: str) -> NetworkCost | None:
    """All ranks call it; rank 0 returns the median over the pairs of its host and each of a few others, both ways.
    None for the other ranks, and where all are on one host. `source`: of the costs, in words. Latency is half of a
    round trip of a byte less the work for a message; bandwidth is bytes of payload.

    Cost: in a pair 0.2 GB over the network, less where that takes longer than five seconds."""
    peers = sorted(rank for rank in first_ranks(comm.hosts) if rank)
    asked = [peers[i] for i in np.linspace(0, len(peers) - 1, min(len(peers), MOST_PEERS)).astype(int)]
    found = []
    for peer in asked:
        comm.barrier()
        if comm.rank == 0:
            pair = measure(comm, peer, EFFORT)
            rates = [rate for ways in pair.rates_Bps.values() for way in ways for rate in way]
            found.append((pair.latency_s, median(rates), pair.message_s))
        elif comm.rank == peer:
            answer(comm, 0, EFFORT)
    if not found:
        return None
    latency_s, bandwidth_Bps, message_s = (median(column) for column in zip(*found, strict=True))
    return NetworkCost(latency_s, bandwidth_Bps, source, message_s)


def first_ranks(hosts: tuple[int, ...]) -> list[int]:
    """The lowest rank of each host, by the hosts' numbers."""
    first = {host: rank for rank, host in reversed(list(enumerate(hosts)))}
    return [first[host] for host in sorted(first)]
