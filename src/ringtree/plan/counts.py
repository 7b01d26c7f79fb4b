"""What a schedule asks of each rank, round by round, whatever its size: messages, steps, and chunks moved.

Counted as lowering writes it: in a round a rank first sends, each range copied once into a slot that all its receivers
read, then receives, all that comes to one place in one step. Columns, so that 64 ranks cost a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Buffer, Schedule, Transfers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
KINDS = ("messages", "steps", "copied", "fetched", "reduced")
"""Messages handed over or taken; copies and reductions; chunks of the rank's own that are moved; chunks that a peer
wrote and this rank reads; chunks that are joined to others."""
MESSAGES, STEPS, COPIED, FETCHED, REDUCED = range(len(KINDS))


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """`work` [2 * rounds, ranks, kinds]: every round's sending half, then its receiving half; the last three kinds in
    chunks of `chunks` to the vector. `meetings`: rounds with a message. `mutual`: whether some ranks wait for one
    another in a circle. `widest`: the most chunks of a message. `held`: the most of the vector, input and output
    together, that a rank has in arrays of its own; 1 is a vector."""

    work: Floats
    chunks: int
    meetings: int
    mutual: bool
    widest: int
    held: float


def counts(schedule: Schedule) -> Counts:
    """Cost: O(transfers) in numpy."""
    s, rows = schedule, schedule.expand()
    away = rows.source != rows.target
    work = np.zeros((max(s.rounds, 1), 2, s.ranks, len(KINDS)))
    _sent(rows.take(away), work)
    _received(rows, away, work)
    if s.in_place:
        np.add.at(work[-1, 1, :, COPIED], np.arange(s.ranks), _kept(s, rows))
    windows = [(s.promise.held(*at), s.promise.owed(*at)) for at in _where(s)]
    return Counts(
        work.reshape(-1, s.ranks, len(KINDS)),
        s.chunks,
        int(
            np.count_nonzero(np.bincount(rows.round[away]))
        ),  # np.unique would load numpy.ma, at a program's first call
        _circular(rows.source[away], rows.target[away], s.ranks),
        int(rows.count[away].max(initial=1)),
        max(len(held) + len(owed) for held, owed in windows) / s.chunks,
    )


def _sent(rows: Transfers, work: Floats) -> None:
    np.add.at(work[:, 0, :, MESSAGES], (rows.round, rows.source), 1.0)
    once = _first(rows.round, rows.source, rows.source_buffer, rows.source_chunk, rows.count)
    np.add.at(work[:, 0, :, STEPS], (rows.round[once], rows.source[once]), 1.0)
    np.add.at(work[:, 0, :, COPIED], (rows.round[once], rows.source[once]), rows.count[once])


def _received(rows: Transfers, away: NDArray[np.bool_], work: Floats) -> None:
    at = (rows.round, rows.target)
    np.add.at(work[:, 1, :, MESSAGES], at, away)
    np.add.at(work[:, 1, :, FETCHED], at, rows.count * away)
    np.add.at(work[:, 1, :, COPIED], at, rows.count * ~away / 2)  # a copy is half reading, half writing
    np.add.at(work[:, 1, :, REDUCED], at, rows.count * rows.reduce)
    once = _first(*at, rows.target_buffer, rows.target_chunk, rows.count)
    at = (rows.round[once], rows.target[once])
    np.add.at(work[:, 1, :, STEPS], at, 1.0)
    np.add.at(work[:, 1, :, COPIED], at, rows.count[once] * (1 + rows.reduce[once]) / 2)


def _first(*columns: NDArray[np.integer]) -> NDArray[np.intp]:
    """The first row of each kind of rows that say the same."""
    if not len(columns[0]):
        return np.zeros(0, np.intp)
    return np.unique(np.stack([np.asarray(c, np.int64) for c in columns]), axis=1, return_index=True)[1]


def _kept(s: Schedule, rows: Transfers) -> Floats:
    """By rank the chunks that it is owed and nothing was written to: copied at the end from input to output."""
    data = rows.target_buffer == Buffer.DATA
    edge = np.zeros((s.ranks, s.chunks + 1), np.int64)
    np.add.at(edge, (rows.target[data], rows.target_chunk[data]), 1)
    np.add.at(edge, (rows.target[data], rows.target_chunk[data] + rows.count[data]), -1)
    written = np.cumsum(edge, axis=1)[:, :-1] > 0
    owed = [s.promise.owed(*at) for at in _where(s)]
    return np.array([np.count_nonzero(~written[rank, list(window)]) for rank, window in enumerate(owed)], np.float64)


def _where(s: Schedule) -> list[tuple[int, int, int, int]]:
    return [(rank, s.ranks, s.chunks, s.root or 0) for rank in range(s.ranks)]


def _circular(source: NDArray[np.integer], target: NDArray[np.integer], ranks: int) -> bool:
    """Whether a message's way may lead back to its sender."""
    sends = np.zeros((ranks, ranks), np.bool_)
    sends[source, target] = True
    left = np.ones(ranks, np.bool_)
    while True:
        fed = left & sends[left].any(axis=0)
        if np.array_equal(fed, left):
            return bool(left.any())
        left = fed
