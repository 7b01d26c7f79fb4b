"""Predicted time of a schedule on a topology (rules: docs/price.md) or in a machine's shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Schedule
from ringtree.ir.units import check_byte_count
from ringtree.price import clocks
from ringtree.price.queues import STATE
from ringtree.price.reading import NOTHING, read, written
from ringtree.price.rounds import MessageRound, RoutedPairs, distinct
from ringtree.topology import Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_WRITTEN_OUT = 1 << 22
"""The most rows written out of a block whose peers move on: of a longer one, repetitions of this many rows stand for
all."""
MOST_WINDOWS = 4
"""The most windows that are played."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A predicted time in parts. `seconds` is `latency_s` (that of a vector of no bytes), `bandwidth_s` (added by its
    bytes on links) and `work_s` (added by copying and reducing them). `busiest`: the link with the longest time of
    bytes, `busiest_s`. `blocks_s`: the seconds added by each block of the schedule."""

    seconds: float
    latency_s: float
    bandwidth_s: float
    work_s: float
    busiest: str
    busiest_s: float
    blocks_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A block: the rounds of the first repetition, and those of the others. Of its repetitions each may stand for
    `weight`."""

    first: tuple[MessageRound, ...]
    others: tuple[MessageRound, ...]
    times: int
    weight: float

    def with_queues(self, at: NDArray[np.bool_]) -> _Part:
        """The part with queues at these links alone; `at` [links]."""
        first, others = (tuple(r.with_queues(at) for r in rounds) for rounds in (self.first, self.others))
        return replace(self, first=first, others=others)


@dataclass(frozen=True, slots=True)
class _SizedPart:
    """A block for a size."""

    first: list[clocks.SizedRound]
    others: list[clocks.SizedRound]
    times: int
    weight: float


class Priced:
    """A schedule read for a topology, to be priced at any size. ValueError: if it has more ranks than the topology, or
    ranks without a route between them. Memory: O(rows of the blocks)."""

    def __init__(self, schedule: Schedule, topology: Topology) -> None:
        _check(schedule, topology)
        self.schedule, self.topology = schedule, topology
        blocks = [_still(schedule, b) for b in schedule.blocks]
        routes = _routes(topology, [b for b, _ in blocks])
        lengths = np.maximum(schedule.lengths, 1)
        self._parts, before = list[_Part](), NOTHING
        for block, weight in blocks:
            if block.rounds:
                part, before = _read(block, weight, routes, before, lengths)
                self._parts.append(part)
        rounds = [r for p in self._parts for r in p.first]
        self._ports = distinct(np.concatenate([r.port for r in rounds])) if rounds else np.zeros(0, np.int64)
        self._queues = _queues(rounds, topology)
        at = np.zeros(topology.links, np.bool_)
        at[self._queues] = True
        self._parts = [p.with_queues(at) for p in self._parts]
        queued = [r.sender[hop.row] for p in self._parts for r in p.first for hop in r.hops]
        self._senders = distinct(np.concatenate(queued)) if queued else clocks.NO_LINKS

    def seconds(self, nbytes: int) -> float:
        """Seconds on a whole vector of `nbytes`."""
        chunk_nbytes = self._chunk_nbytes(nbytes)
        return self._play(chunk_nbytes, chunk_nbytes)[-1]

    def windowed_seconds(self, nbytes: int, windows: int) -> float:
        """Seconds on a whole vector of `nbytes` where each rank runs all of the schedule on a window of every chunk,
        then on the next window, as an engine does whose staging slots are shorter than chunks.

        A few windows are played, and every further one takes as long as the second half of those."""
        chunk_nbytes = self._chunk_nbytes(nbytes)
        blocks = self._sized(chunk_nbytes / windows, chunk_nbytes / windows)
        clock_s, ends_s = np.zeros(self._clocks), [0.0]
        for _ in range(min(windows, MOST_WINDOWS)):
            ends_s += self._advance(clock_s, blocks)[-1:] or ends_s[-1:]
        half, played = (len(ends_s) - 1) // 2, len(ends_s) - 1
        further_s = (windows - played) * (ends_s[-1] - ends_s[half]) / max(played - half, 1)
        return max(ends_s[-1] + further_s, float(self._links_s(chunk_nbytes).max(initial=0.0)))

    def quote(self, nbytes: int) -> Quote:
        """The time on a whole vector of `nbytes`, and its parts."""
        chunk_nbytes = self._chunk_nbytes(nbytes)
        latency_s = self._play(0.0, 0.0)[-1]
        moved_s = self._play(chunk_nbytes, 0.0)[-1]
        ends_s = self._play(chunk_nbytes, chunk_nbytes)
        busiest, busiest_s = self.busiest(nbytes)
        return Quote(
            ends_s[-1],
            latency_s,
            moved_s - latency_s,
            ends_s[-1] - moved_s,
            busiest,
            busiest_s,
            tuple(np.diff(ends_s[:-1]).tolist()),
        )

    def busiest(self, nbytes: int) -> tuple[str, float]:
        """The link with the longest time of bytes, and that time in seconds."""
        full_s = self._links_s(self._chunk_nbytes(nbytes))
        if not full_s.any():
            return "no link", 0.0
        return self.topology.link_name(int(full_s.argmax())), float(full_s.max())

    def work_s(self, nbytes: int) -> float:
        """Seconds of the rank with the most local work."""
        chunk_nbytes = self._chunk_nbytes(nbytes)
        busy_s = np.zeros(self.schedule.participants)
        for part in self._parts:
            for r in part.first:
                sent_s = np.maximum.reduceat(r.hand.seconds(chunk_nbytes), r.sender_starts) if len(r.sender) else 0
                busy_s[r.sender[r.sender_starts]] += sent_s * (part.times * part.weight)
                took_s = r.rest.seconds(chunk_nbytes)[r.receiver_starts]
                busy_s[r.receiver] += took_s * (part.times * part.weight)
        return float(busy_s.max(initial=0.0))

    def _chunk_nbytes(self, nbytes: int) -> float:
        check_byte_count(nbytes)
        s = self.schedule
        whole = nbytes // s.ranks * s.ranks if s.promise.blocked else nbytes
        return float(whole / s.chunks)

    def _play(self, chunk_nbytes: float, work_nbytes: float) -> list[float]:
        """Seconds at the start and after each block; then of the whole, at least the time of each link's bytes."""
        clock_s = np.zeros(self._clocks)
        ends_s = [0.0, *self._advance(clock_s, self._sized(chunk_nbytes, work_nbytes))]
        return [*ends_s, max(ends_s[-1], float(self._links_s(chunk_nbytes).max(initial=0.0)))]

    @property
    def _clocks(self) -> int:
        return self.schedule.participants + len(self._ports) + STATE * len(self._queues)

    def _sized(self, chunk_nbytes: float, work_nbytes: float) -> list[_SizedPart]:
        def sized(rounds: tuple[MessageRound, ...]) -> list[clocks.SizedRound]:
            where = self.schedule.participants, self._ports, chunk_nbytes, work_nbytes, self._queues, self._senders
            return [clocks.SizedRound(r, *where) for r in rounds]

        return [_SizedPart(sized(p.first), sized(p.others), p.times, p.weight) for p in self._parts]

    def _advance(self, clock_s: Floats, parts: Sequence[_SizedPart]) -> list[float]:
        """Plays all blocks from these clocks on; seconds at the end of each block."""
        ends_s = []
        for part in parts:
            began_s = clock_s.copy() if part.weight != 1 else clock_s
            clocks.play(clock_s, part.first)
            clocks.repeat(clock_s, part.others, part.times - 1)
            if part.weight != 1:
                clock_s += (clock_s - began_s) * (part.weight - 1)
            ends_s.append(float(clock_s[: self.schedule.participants].max()))
        return ends_s

    def _links_s(self, chunk_nbytes: float) -> Floats:
        """The seconds of bytes that cross each link."""
        chunks = np.zeros(self.topology.links)
        for part in self._parts:
            for r in part.first:
                chunks[r.links] += r.link_chunks * (part.times * part.weight)
        used = chunks > 0
        chunks[used] *= chunk_nbytes / self.topology.bandwidth_Bps[used]
        return chunks


def quote(schedule: Schedule, topology: Topology, nbytes: int) -> Quote:
    """The time of the schedule on a whole vector of `nbytes`, and its parts; its rank r is the topology's rank r.
    Errors as in `Priced`, which reads the schedule once for many sizes."""
    return Priced(schedule, topology).quote(nbytes)


def _queues(rounds: Sequence[MessageRound], topology: Topology) -> Ints:
    """The links where messages of several ports can wait for one another, sorted: a link that has all of them from one
    that is not faster never lets them wait."""
    if not any(r.hops for r in rounds):
        return clocks.NO_LINKS
    columns = []
    for r in rounds:
        before = r.port % (topology.links + 1)  # the link by which a message leaves its rank
        for hop in r.hops:
            columns.append((hop.link, r.port[hop.row], before[hop.row]))
            before[hop.row] = hop.link
    link, port, before = map(np.concatenate, zip(*columns, strict=True))
    slower = distinct(link[topology.bandwidth_Bps[before] > topology.bandwidth_Bps[link]])
    waits = distinct(np.concatenate([_several(link, before), slower]))
    return np.intersect1d(_several(link, port), waits, assume_unique=True)


def _several(link: Ints, what: Ints) -> Ints:
    """The links that stand beside several different numbers, sorted."""
    found, times = np.unique(distinct(link * (what.max() + 1) + what) // (what.max() + 1), return_counts=True)
    several: Ints = found[times > 1]
    return several


def _check(schedule: Schedule, topology: Topology) -> None:
    if schedule.ranks > topology.ranks:
        raise ValueError(
            f"{schedule.name} is for {schedule.ranks} ranks; expected at most the {topology.ranks} of {topology.name}"
        )
    if schedule.switches and (schedule.ranks, schedule.participants) != (
        topology.ranks,
        min(schedule.participants, len(topology.nodes)),
    ):
        raise ValueError(
            f"{schedule.name} is for {schedule.ranks} ranks and {schedule.switches} switches; expected those of "
            f"{topology.name}: {topology.ranks} and {len(topology.nodes) - topology.ranks}"
        )


def _still(schedule: Schedule, block: Block) -> tuple[Block, float]:
    """The block with its peers written out where they move on, and the number of repetitions that each stands for."""
    shift, rows = block.shift, block.rows
    if not (shift.source or shift.target) or not len(rows):
        return block, 1.0
    most = max(MOST_WRITTEN_OUT // len(rows), 1)
    which = distinct(np.linspace(0, block.times - 1, min(block.times, most)).astype(np.int64))
    return Block(schedule.repetitions(block, which)), block.times / len(which)


def _routes(topology: Topology, blocks: list[Block]) -> RoutedPairs:
    pairs = [np.zeros((2, 0), np.int64)]
    for b in blocks:
        away = b.rows.source != b.rows.target
        pairs.append(np.stack([b.rows.source[away], b.rows.target[away]]).astype(np.int64))
    return RoutedPairs(topology, *np.concatenate(pairs, axis=1))


def _read(block: Block, weight: float, routes: RoutedPairs, before: Ints, lengths: Ints) -> tuple[_Part, Ints]:
    """The block's rounds, and the ranges that its last one writes."""
    rows, shift = block.rows, block.shift
    first = read(rows, routes, before)
    opening, closing = (rows.take(rows.round == rows.round[at]) for at in (0, -1))
    ready, others = written(closing), first
    if block.times > 1 and _copies(routes.topology):
        others = [*read(opening, routes, _moved(ready, lengths, -shift.source_chunk)), *first[1:]]
    last = _moved(ready, lengths, (block.times - 1) * shift.target_chunk)
    return _Part(tuple(first), tuple(others), block.times, weight), last


def _copies(topology: Topology) -> bool:
    return bool(topology.step_s or topology.copy_Bps < np.inf)


def _moved(ranges: Ints, lengths: Ints, by: int) -> Ints:
    """Ranges as (rank, buffer, chunk, count), their chunks moved."""
    moved = ranges.copy()
    moved[:, 2] = (ranges[:, 2] + by) % lengths[ranges[:, 1]]
    return moved
