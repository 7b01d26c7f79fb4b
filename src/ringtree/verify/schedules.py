"""Proves a schedule: plays it on symbolic contents and compares every rank's final contents with the postcondition.

A spoiled chunk that is overwritten, or that is in no postcondition, is no error. One play stands for all inputs. Cost:
that of ir/contents.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ringtree.ir.contents import NOTHING, Contents, Promised, play
from ringtree.ir.moves import Moves
from ringtree.ir.schedule import Schedule
from ringtree.ir.spec import check, describe, title
from ringtree.verify.wording import ProofError, promise_in_words, ranks_in_words, value_in_words


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof: the schedule's name and size."""

    name: str
    collective: str
    ranks: int
    chunks: int
    root: int | None
    rounds: int
    transfers: int

    def __str__(self) -> str:
        root = "" if self.root is None else f" from root {self.root}"
        return (
            f"{self.name} {self.collective}{root} over {self.ranks} ranks: proved "
            f"({self.rounds} rounds, {self.transfers} transfers)"
        )


def prove(schedule: Schedule) -> Proof:
    """Accepts the schedule if every rank ends with exactly its collective's postcondition, no contribution missing or
    counted twice. ProofError: if not; ScheduleError: if it is no legal schedule."""
    check(schedule)
    moves = Moves.of(schedule)
    end = Contents.at_start(schedule, moves.layout)
    play(moves, end, schedule.promise.repeats)
    promised = Promised.of(schedule, moves.layout)
    wrong = np.flatnonzero(~promised.kept(end))
    if len(wrong):
        raise _explain(schedule, moves, end, promised, int(wrong[0]))
    s = schedule
    return Proof(s.name, s.collective, s.ranks, s.chunks, s.root, s.rounds, s.transfers)


def _explain(s: Schedule, moves: Moves, end: Contents, promised: Promised, which: int) -> ProofError:
    """The refusal of promise number `which`: with the row that spoiled the chunk, or the last write."""
    rank, chunk, cell = (int(c[which]) for c in (promised.rank, promised.position, promised.cell))
    postcondition = s.promise.contributors(rank, s.ranks)
    expected = promise_in_words(int(promised.label[which]), int(promised.origin[which]), postcondition)
    label, origins = end.read(s, cell)
    written = moves.row[moves.target == cell]
    row = NOTHING - 1 - label if label < NOTHING else int(written.max(initial=-1))
    if label < NOTHING:
        there = f"a spoiled chunk: {_describe_spoiling(s, moves, row)}"
    elif row < 0:
        there = f"{value_in_words(label, origins)}, as at the start: no transfer writes it"
    else:
        missing = sorted(set(postcondition) - set(origins))
        lacks = f" (missing {ranks_in_words(missing)})" if s.promise.reduces and origins and missing else ""
        there = f"{value_in_words(label, origins)}{lacks}, last written in {describe(moves.rows, row)}"
    return ProofError(
        f"{title(s)}: rank {rank} chunk {chunk}: expected {expected}; there was {there}",
        rank=rank,
        chunk=chunk,
        round=int(moves.rows.round[row]) if row >= 0 else -1,
    )


def _describe_spoiling(s: Schedule, moves: Moves, row: int) -> str:
    """The illegal addition of transfer `row`, in words: plays up to it once more."""
    before_round, before_row = (Contents.at_start(s, moves.layout) for _ in range(2))
    play(moves.before(row, round_only=True), before_round, s.promise.repeats)
    play(moves.before(row), before_row, s.promise.repeats)
    reason = ""
    for i in np.flatnonzero(moves.row == row).tolist():
        label, origins = before_round.read(s, int(moves.source[i]))
        onto, already = before_row.read(s, int(moves.target[i]))
        twice = sorted(set(origins) & set(already))
        if label >= 0 and label == onto and s.promise.reduces and (s.promise.repeats or not twice):
            continue  # another chunk of the range
        reason = f"{value_in_words(label, origins)} to {value_in_words(onto, already)}"
        if label == onto >= 0 and twice:
            reason += f" (counting {ranks_in_words(twice)} twice)"
        break
    return f"{describe(moves.rows, row)} added {reason}"
