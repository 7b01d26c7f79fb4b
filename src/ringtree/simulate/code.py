"""Every rank's instructions as columns, with bytes: the input of the players.

A schedule's columns are written a kind of ranks at a time (ir.alike), a thousand ranks in about the time of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.alike import alike
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.ranges import elements
from ringtree.ir.schedule import Schedule
from ringtree.simulate.simulation import Job

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Instructions of all ranks, rank r's in rows first[r]:first[r+1]. Releases are left out: they take no time.

    `peer` of a copy or a reduction: the sender of the message it reads, -1 where none. `nbytes` of a wait are those of
    the signal it takes. `chunk`: the position on the whole vector, -1 where it is several or none.
    """

    first: Ints
    kind: NDArray[np.int8]
    nbytes: Ints
    sources: NDArray[np.int32]
    peer: NDArray[np.int32]
    chunk: NDArray[np.int32]
    signal: Ints
    """Each signal's row, in the order of `wait`: the row of the wait that takes it."""
    wait: Ints

    @property
    def rank(self) -> NDArray[np.int32]:
        """The rank of each row, [rows]."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.int32), np.diff(self.first))


def of_job(job: Job) -> Code | None:
    """Returns the job as columns; None for programs without columns, or whose signals and waits do not pair."""
    what, sizes = job.what, job.chunk_nbytes
    return of_schedule(what, sizes) if isinstance(what, Schedule) else of_programs(what, sizes)


def of_schedule(schedule: Schedule, sizes: Ints) -> Code | None:
    """The programs that lowering the schedule gives. `sizes`: bytes of each chunk by its label."""
    parts = []
    for kind in alike(schedule):
        lines = _Lines(kind.code)
        peer = lines.peer
        if kind.peers.shape[1]:
            by_name = np.zeros(schedule.ranks + 1, dtype=np.int64)
            by_name[kind.peers[0]] = np.arange(kind.peers.shape[1])
            peer = np.where(lines.peer < 0, -1, kind.peers[:, by_name[lines.peer]])
        label = _renamed(lines.label, lines.count, kind.labels)
        body = _Part(kind.ranks, lines, np.broadcast_to(peer, (len(kind.ranks), len(lines.kind))), label)
        parts.append((body, kind.finish))
    return _assembled(parts, schedule.ranks, schedule.chunks, sizes)


def of_programs(programs: Sequence[Program], sizes: Ints) -> Code | None:
    """The columns of programs sorted by rank; None where a signal and a wait do not pair, or a rank has several threads
    or touches a peer's memory."""
    parts = []
    none = np.zeros(0, np.int64)
    for p in programs:
        if len(p.threads) != 1 or any(
            i.after or i.channel or any(o.rank >= 0 for o in (*i.targets, *i.sources)) for i in p.threads[0]
        ):
            return None
        lines = _Lines(p.instructions)
        label = _chunks(lines.label, lines.count)[None, :]
        parts.append((_Part(np.array([p.rank]), lines, lines.peer[None, :], label), (none, none, none)))
    return _assembled(parts, len(programs), programs[0].chunks, sizes)


class _Lines:
    """A program's instructions as columns; label and count are of the written or sent range."""

    def __init__(self, code: Iterable[Instruction]) -> None:
        rows: list[tuple[int, int, int, int, int]] = []
        slots: dict[int, Operand] = {}
        messages: dict[int, int] = {}
        for i in code:
            kind, targets, sources, peer, register = i[:5]
            if kind <= Kind.REDUCE:
                for o in targets:
                    if o.space is Space.SLOT:
                        slots[o.index] = o
                read = next((messages[o.index] for o in sources if o.space is Space.MESSAGE), -1)
                rows.append((kind, len(sources), read, targets[0].label, targets[0].count))
            elif kind == Kind.SIGNAL:
                label, count = slots[register][2:4] if register >= 0 else (0, 0)
                rows.append((kind, 0, peer, label, count))
            elif kind == Kind.WAIT:
                messages[register] = peer
                rows.append((kind, 0, peer, 0, 0))
        table = np.array(rows, dtype=np.int64).reshape(-1, 5)
        self.kind, self.sources, self.peer, self.label, self.count = table.T


@dataclass(frozen=True, slots=True)
class _Part:
    """Like ranks' instructions: `peer` [ranks, lines], `label` [ranks, chunks of all lines]."""

    ranks: Ints
    lines: _Lines
    peer: Ints
    label: Ints


def _chunks(first: Ints, count: Ints) -> Ints:
    """All labels of the ranges, one after the other."""
    if count.min(initial=1) == count.max(initial=1) == 1:
        return first
    return elements(first, count)[1]


def _renamed(label: Ints, count: Ints, labels: Ints) -> Ints:
    """[ranks, chunks]: each rank's labels in the positions of the first rank's, labels[0]."""
    wanted = _chunks(label, count)
    order = np.argsort(labels[0])
    return labels[:, order[np.searchsorted(labels[0][order], wanted)]] if len(wanted) else labels[:, :0]


def _assembled(
    parts: Sequence[tuple[_Part, tuple[Ints, Ints, Ints]]], ranks: int, chunks: int, sizes: Ints
) -> Code | None:
    lengths = np.zeros(ranks, dtype=np.int64)
    for part, (who, _, _) in parts:
        lengths[part.ranks] = len(part.lines.kind) + np.bincount(who, minlength=len(part.ranks))
    first = np.concatenate([[0], np.cumsum(lengths)])
    kind = np.full(first[-1], Kind.COPY, dtype=np.int8)
    nbytes = np.zeros(first[-1], dtype=np.int64)
    sources, peer, chunk = (np.full(first[-1], fill, dtype=np.int32) for fill in (1, -1, -1))
    before = np.concatenate([[0], np.cumsum(sizes)])
    for part, (who, start, count) in parts:
        lines = part.lines
        at = first[part.ranks][:, None] + np.arange(len(lines.kind))
        kind[at], sources[at], peer[at] = lines.kind, lines.sources, part.peer
        end = np.cumsum(lines.count)
        begin = end - lines.count
        if lines.count.min(initial=1) == lines.count.max(initial=1) == 1:
            nbytes[at] = sizes[part.label]
        else:
            sums = np.zeros((len(part.ranks), part.label.shape[1] + 1), dtype=np.int64)
            np.cumsum(sizes[part.label], axis=1, out=sums[:, 1:])
            nbytes[at] = sums[:, end] - sums[:, begin]
        one = np.flatnonzero(lines.count == 1)
        chunk[at[:, one]] = part.label[:, begin[one]] % chunks
        nth = np.arange(len(who)) - np.searchsorted(who, who)
        last = first[part.ranks[who]] + len(lines.kind) + nth
        nbytes[last] = before[start + count] - before[start]
        chunk[last] = np.where(count == 1, start % chunks, -1)
    rank = np.repeat(np.arange(ranks), lengths)
    pairs = _paired(rank, kind, peer, ranks)
    if pairs is None:
        return None
    signal, wait = pairs
    nbytes[wait], chunk[wait] = nbytes[signal], chunk[signal]
    return Code(first, kind, nbytes, sources, peer, chunk, signal, wait)


def _paired(rank: Ints, kind: NDArray[Any], peer: NDArray[Any], ranks: int) -> tuple[Ints, Ints] | None:
    """The k-th signal of a lane and the k-th wait, for all; None where their numbers differ."""
    signal, wait = np.flatnonzero(kind == Kind.SIGNAL), np.flatnonzero(kind == Kind.WAIT)
    signal_lane, wait_lane = rank[signal] * ranks + peer[signal], peer[wait].astype(np.int64) * ranks + rank[wait]
    by_signal, by_wait = np.argsort(signal_lane, kind="stable"), np.argsort(wait_lane, kind="stable")
    if not np.array_equal(signal_lane[by_signal], wait_lane[by_wait]):
        return None
    return signal[by_signal], wait[by_wait]
