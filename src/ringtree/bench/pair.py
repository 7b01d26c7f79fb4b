"""Messages between one rank of each of two hosts: one measures, the other answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf
from statistics import median, quantiles
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringtree.price.hosts import WIRE_MESSAGE_S

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

LEAST_S = 1e-6
"""The part of a short message's time that is latency: the rest is its ranks' work."""
TO_PEER, FROM_PEER, STREAM_TO_PEER, END = range(4)
STREAM = 6
"""The short messages of a stream, which is answered once. A lane holds more: the sender waits for no credits."""
TRIPS_PART = 0.25
"""The most of a pair's time that its short messages take."""
FEWEST_TRIPS = 3


@dataclass(frozen=True, slots=True)
class PairEffort:
    """The messages of a pair: `warmup` and `trips` short ones there and back, `streams` of short ones, then
    `repetitions` of each size in bytes both ways, the sizes in ascending order. After `seconds` no longer size is
    begun, nor one that would take longer."""

    trips: int
    warmup: int
    sizes: tuple[int, ...]
    repetitions: int
    seconds: float = inf
    streams: int = 0


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """The times of a pair. `trips_s`: of each short message there and back; `rates_Bps`: by size in bytes the rates to
    the peer, and those from it; `message_s`: the work of the busier end for a message, by the streams if there were
    any."""

    trips_s: list[float]
    rates_Bps: dict[int, tuple[list[float], list[float]]]
    message_s: float = WIRE_MESSAGE_S

    @property
    def latency_s(self) -> float:
        """The usual latency of a message beside the ranks' own work: by the median trip."""
        return self._latency_s(median(self.trips_s))

    @property
    def least_latency_s(self) -> float:
        """The latency of a link where its ranks are not kept waiting by others of their cores: by the trip that a tenth
        of all are faster than."""
        return self._latency_s(_least_s(self.trips_s))

    def longest_Bps(self) -> tuple[float, float]:
        """The rates to the peer and from it, of the longest messages: links pass short bursts at a higher rate."""
        to, back = self.rates_Bps[max(self.rates_Bps)]
        return median(to), median(back)

    def _latency_s(self, trip_s: float) -> float:
        return max(trip_s / 2 - self.message_s, LEAST_S)


def measure(comm: Communicator, peer: int, effort: PairEffort) -> MeasuredPair:
    """The times of messages to and from a peer, which calls `answer` meanwhile."""
    began_s, data = time.monotonic(), np.zeros(effort.sizes[-1], np.uint8)
    trips_s: list[float] = []
    for n in range(effort.warmup + effort.trips):
        if n >= effort.warmup + FEWEST_TRIPS and time.monotonic() - began_s > TRIPS_PART * effort.seconds:
            break
        trips_s.append(_trip_s(comm, peer, TO_PEER, data[:1]))
    trips_s = trips_s[effort.warmup :]
    trip_s = _least_s(trips_s)  # a longer one than of the message itself would leave it no time
    message_s = _message_s([_stream_s(comm, peer) for _ in range(effort.streams)]) if effort.streams else WIRE_MESSAGE_S
    rates: dict[int, tuple[list[float], list[float]]] = {}
    expected_s = 0.0
    for nbytes in effort.sizes:
        left_s = effort.seconds - (time.monotonic() - began_s)
        if rates and expected_s > left_s:
            break
        rates[nbytes] = ([], [])
        size_s = time.monotonic()
        for way in (TO_PEER, FROM_PEER):
            times = [_trip_s(comm, peer, way, data[:nbytes]) for _ in range(effort.repetitions)]
            rates[nbytes][way].extend(nbytes / max(took_s - trip_s, LEAST_S) for took_s in times)
        expected_s = 2 * (time.monotonic() - size_s)  # the next size is twice as long
    comm.send(np.array([END, 0]), peer)
    return MeasuredPair(trips_s, rates, message_s)


def _least_s(trips_s: list[float]) -> float:
    """The trip that a tenth of all are faster than."""
    return sorted(trips_s)[len(trips_s) // 10]


def answer(comm: Communicator, peer: int, effort: PairEffort) -> None:
    """The other side of `measure`, of the same effort."""
    order, data = np.empty(2, np.int64), np.zeros(effort.sizes[-1], np.uint8)
    while True:
        way, nbytes = comm.recv(order, peer).tolist()
        if way == END:
            return
        if way == STREAM_TO_PEER:
            comm.send(data[:1], peer)
            for messages in (STREAM, 1):
                for _ in range(messages):
                    comm.recv(data[:1], peer)
                comm.send(data[:1], peer)
        elif way == TO_PEER:
            comm.recv(data[:nbytes], peer)
            comm.send(data[:1], peer)
        else:
            comm.send(data[:nbytes], peer)


def _message_s(times_s: list[tuple[float, float]]) -> float:
    """Seconds from message to message in a stream, by the times of streams and of single messages. A busy machine only
    adds to either, so the first quarter of each counts: differences of single pairs may be less than nothing."""
    streams_s, singles_s = zip(*times_s, strict=True)
    more_s: float = quantiles(streams_s, n=4)[0] - quantiles(singles_s, n=4)[0]
    return max(more_s, 0.0) / (STREAM - 1)


def _stream_s(comm: Communicator, peer: int) -> tuple[float, float]:
    """Seconds of a stream of short messages, and of one, until they are answered: they differ by the work of the busier
    end."""
    short, answered = np.zeros(1, np.uint8), np.empty(1, np.uint8)
    comm.send(np.array([STREAM_TO_PEER, 1]), peer)
    comm.recv(answered, peer)
    began_s = time.perf_counter()
    for _ in range(STREAM):
        comm.send(short, peer)
    comm.recv(answered, peer)
    streamed_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    comm.send(short, peer)
    comm.recv(answered, peer)
    return streamed_s, time.perf_counter() - began_s


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
