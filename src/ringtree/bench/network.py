"""The network between hosts, measured by messages between one rank of each of two hosts."""

from __future__ import annotations

import time
from statistics import median, quantiles
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringtree.price.hosts import NetworkCost

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

SIZES = tuple(1 << power for power in range(20, 25))
"""1 to 16 MiB: where a link lets a burst pass, most are longer than that."""
TRIPS, WARMUP = 200, 20
REPETITIONS = 3
MOST_PEERS = 8
PEER_S = 5.0
"""Seconds after which a pair goes on to no longer size."""
LEAST_S = 1e-6
"""The part of a short message's time that is latency: the rest is its ranks' work."""
STREAM, STREAMS = 6, 60
"""The messages of a stream that is answered once, and the streams: what a message costs beside its latency. A lane
holds more messages than a stream has: the sender waits for no credits."""
TO_PEER, FROM_PEER, STREAM_TO_PEER, END = range(4)


def measure_network(comm: Communicator, source: str) -> NetworkCost | None:
    """All ranks call it; rank 0 returns the median over the pairs of its host and each of a few others, both ways.
    None for the other ranks, and where all are on one host. `source`: of the costs, in words. Latency is half of a
    round trip of a byte less the work for a message; bandwidth is bytes of payload.

    Cost: in a pair 0.2 GB over the network, less where that takes longer than PEER_S."""
    first = {host: rank for rank, host in reversed(list(enumerate(comm.hosts)))}  # of each host its lowest rank
    peers = sorted(rank for rank in first.values() if rank)
    asked = [peers[i] for i in np.linspace(0, len(peers) - 1, min(len(peers), MOST_PEERS)).astype(int)]
    found = []
    for peer in asked:
        comm.barrier()
        if comm.rank == 0:
            found.append(_measured(comm, peer))
        elif comm.rank == peer:
            _answer(comm)
    if not found:
        return None
    latency_s, bandwidth_Bps, message_s = (median(column) for column in zip(*found, strict=True))
    return NetworkCost(latency_s, bandwidth_Bps, source, message_s)


def _measured(comm: Communicator, peer: int) -> tuple[float, float, float]:
    """Latency and bandwidth of the messages to and from a peer, which answers, and the work for a message."""
    began_s, data = time.monotonic(), np.zeros(SIZES[-1], np.uint8)
    trip_s = median([_trip_s(comm, peer, TO_PEER, data[:1]) for _ in range(WARMUP + TRIPS)][WARMUP:])
    message_s = quantiles([_stream_s(comm, peer) for _ in range(STREAMS)], n=4)[0]  # a busy machine only adds
    rates: list[float] = []
    for nbytes in SIZES:
        if time.monotonic() - began_s > PEER_S and rates:
            break
        for way in (TO_PEER, FROM_PEER):
            times = [_trip_s(comm, peer, way, data[:nbytes]) for _ in range(REPETITIONS)]
            rates += [nbytes / max(took_s - trip_s, LEAST_S) for took_s in times]
    comm.send(np.array([END, 0]), peer)
    return max(trip_s / 2 - message_s, LEAST_S), median(rates), message_s


def _stream_s(comm: Communicator, peer: int) -> float:
    """Seconds from message to message in a stream of short ones: the work of the busier end."""
    short, answer = np.zeros(1, np.uint8), np.empty(1, np.uint8)
    comm.send(np.array([STREAM_TO_PEER, 1]), peer)
    comm.recv(answer, peer)
    began_s = time.perf_counter()
    for _ in range(STREAM):
        comm.send(short, peer)
    comm.recv(answer, peer)
    streamed_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    comm.send(short, peer)
    comm.recv(answer, peer)
    return max(streamed_s - (time.perf_counter() - began_s), 0.0) / (STREAM - 1)


def _trip_s(comm: Communicator, peer: int, way: int, data: NDArray[np.uint8]) -> float:
    """Seconds until the peer has the data and has answered, or until the data that it was asked for are here."""
    began_s = time.perf_counter()
    comm.send(np.array([way, len(data)]), peer)
    if way == TO_PEER:
        comm.send(data, peer)
        comm.recv(np.empty(1, np.uint8), peer)
    else:
        comm.recv(data, peer)
    return time.perf_counter() - began_s


def _answer(comm: Communicator) -> None:
    """The other side of rank 0."""
    order, data = np.empty(2, np.int64), np.zeros(SIZES[-1], np.uint8)
    while True:
        way, nbytes = comm.recv(order, 0).tolist()
        if way == END:
            return
        if way == STREAM_TO_PEER:
            comm.send(data[:1], 0)
            for messages in (STREAM, 1):
                for _ in range(messages):
                    comm.recv(data[:1], 0)
                comm.send(data[:1], 0)
        elif way == TO_PEER:
            comm.recv(data[:nbytes], 0)
            comm.send(data[:1], 0)
        else:
            comm.send(data[:nbytes], 0)
