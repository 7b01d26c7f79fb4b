"""Latency and bandwidth between every two hosts, by pairs that do not disturb each other: in a round each host is in
one pair at most."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ringtree.bench.network import first_ranks
from ringtree.bench.pair import PairEffort, answer, measure
from ringtree.bench.slow_links import slow_links

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

TRIPS, WARMUP, REPETITIONS = 200, 10, 3
SIZES = tuple(1 << power for power in range(16, 25))
"""64 KiB to 16 MiB, as far as a pair's time reaches."""
LEAST_PAIR_S = 0.02
MOST_LOOKS = 6


@dataclass(frozen=True, slots=True)
class HostLinks:
    """The links between hosts, as [hosts, hosts] of row to column; nan on the diagonal. `latency_s`: the least, as
    `MeasuredPair` has it. `ways`: what each host found out about its way to each other, None on the diagonal. `pair_s`:
    the budget of a pair; `took_s`: of all."""

    latency_s: NDArray[np.float64]
    bandwidth_Bps: NDArray[np.float64]
    ways: list[list[Any]]
    pair_s: float
    took_s: float


def pairings(hosts: int) -> list[list[tuple[int, int]]]:
    """Rounds in which every two hosts meet once, by the circle method: hosts - 1 rounds, as many as
    hosts where they are odd."""
    circle: list[int] = [*range(hosts), *([-1] if hosts % 2 else [])]
    rounds = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        met = zip(circle[:half], reversed(circle[half:]), strict=True)
        rounds.append([(min(a, b), max(a, b)) for a, b in met if min(a, b) >= 0])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return rounds


def measure_host_links(
    comm: Communicator, seconds: float, way: Callable[[int], Any] = lambda host: None
) -> HostLinks | None:
    """All ranks call it; rank 0 returns the links, the others None, and all None where there is one host.

    `seconds`: for all rounds together: half of them for all pairs, the rest for further looks at those that seem slow,
    of which the best figure counts: a busy host is slow at times, a slow link always. A pair takes its part, though
    20 ms at least, and three messages of 64 KiB each way, which take a link of less than 1 Mb/s longer. `way`: called
    after each measurement with the number of the other host; returns what JSON can write."""
    first = first_ranks(comm.hosts)
    if len(first) < 2:
        return None
    rounds, began_s = pairings(len(first)), time.monotonic()
    effort = PairEffort(TRIPS, WARMUP, SIZES, REPETITIONS, max(seconds / 2 / len(rounds), LEAST_PAIR_S))
    links: HostLinks | None = None
    for _ in range(MOST_LOOKS):
        found = gather_json(comm, _rounds(comm, rounds, effort, way))
        if found is not None:
            links = _better(links, _links([found[rank] for rank in first], effort.seconds))
        rounds = all_gather_json(comm, _doubtful(links, began_s + seconds - time.monotonic()))[0]
        if not rounds:
            break
    return links and replace(links, took_s=time.monotonic() - began_s)


def _doubtful(links: HostLinks | None, left_s: float) -> list[list[tuple[int, int]]]:
    """The rounds of the pairs that seem slow; none where no time is left for them, and on other ranks than 0."""
    if links is None:
        return []
    slow = slow_links(links.latency_s, links.bandwidth_Bps).pairs()
    rounds = [kept for pairs in pairings(len(links.ways)) if (kept := [pair for pair in pairs if pair in slow])]
    return rounds if len(rounds) * links.pair_s <= left_s else []


def _rounds(
    comm: Communicator, rounds: Sequence[Sequence[Sequence[int]]], effort: PairEffort, way: Callable[[int], Any]
) -> list[Any]:
    """This rank's part of the rounds, as rows: the other host, what was measured (None where the other measures), the
    way to it."""
    first = first_ranks(comm.hosts)
    mine = comm.hosts[comm.rank]
    found: list[Any] = []
    for pairs in rounds:
        comm.barrier()
        pair = next((pair for pair in pairs if mine in pair), None)
        if pair is None or comm.rank != first[mine]:
            continue
        other = sum(pair) - mine
        if mine < other:
            measured = measure(comm, first[other], effort)
            found.append([other, measured.least_latency_s, *measured.longest_Bps(), way(other)])
        else:
            answer(comm, first[other], effort)
            found.append([other, None, None, None, way(other)])
    return found


def _links(found: Sequence[Sequence[Any]], pair_s: float) -> HostLinks:
    hosts = len(found)
    latency_s, bandwidth_Bps = np.full((hosts, hosts), np.nan), np.full((hosts, hosts), np.nan)
    ways: list[list[Any]] = [[None] * hosts for _ in range(hosts)]
    for host, rows in enumerate(found):
        for other, seconds, there_Bps, back_Bps, way in rows:
            ways[host][other] = way
            if seconds is not None:
                latency_s[host, other] = latency_s[other, host] = seconds
                bandwidth_Bps[host, other], bandwidth_Bps[other, host] = there_Bps, back_Bps
    return HostLinks(latency_s, bandwidth_Bps, ways, pair_s, 0.0)


def _better(before: HostLinks | None, again: HostLinks) -> HostLinks:
    """The better figures of two measurements, the second of some pairs only."""
    if before is None:
        return again
    latency_s = np.fmin(before.latency_s, again.latency_s)
    return replace(before, latency_s=latency_s, bandwidth_Bps=np.fmax(before.bandwidth_Bps, again.bandwidth_Bps))


def gather_json(comm: Communicator, value: Any) -> list[Any] | None:
    """Each rank's value, as JSON has it, at rank 0; None elsewhere. Nothing that comes is run, as a pickle is."""
    data, lengths = _written(comm, value)
    joined = comm.gather_v(data, 0, lengths)
    return None if joined is None else _read(joined, lengths)


def all_gather_json(comm: Communicator, value: Any) -> list[Any]:
    """Each rank's value, as JSON has it, on every rank."""
    data, lengths = _written(comm, value)
    return _read(comm.all_gather_v(data, lengths), lengths)


def _written(comm: Communicator, value: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    data = np.frombuffer(json.dumps(value).encode(), np.uint8)
    return data, comm.all_gather(np.array([data.size], np.int64)).reshape(-1)


def _read(joined: Any, lengths: NDArray[np.int64]) -> list[Any]:
    whole, ends = np.asarray(joined).tobytes(), np.cumsum(lengths).tolist()
    return [json.loads(whole[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]
