"""The rounds of a schedule that repeat, which a view shows once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Schedule, Shift, Transfers
from ringtree.ir.text import format_head

ALIKE = ("source", "target", "source_buffer", "target_buffer", "count", "reduce")


class Repeat(NamedTuple):
    """A repetition: from round `start` on `period` rounds are done `times` times; `moves`: the change each time."""

    start: int
    period: int
    times: int
    moves: str

    @property
    def stop(self) -> int:
        """The first round after the repetitions."""
        return self.start + self.period * self.times

    @property
    def shown(self) -> list[int]:
        """The rounds that represent the repetition: all of a few, else those at the beginning and at the end."""
        if self.times <= 3:
            return list(range(self.start, self.stop))
        first = self.period * (2 if self.period == 1 else 1)
        return [*range(self.start, self.start + first), *range(self.stop - self.period, self.stop)]


def repeats(s: Schedule) -> list[Repeat]:
    """All rounds of the schedule, in order, as repeats: its blocks, and single rounds that only move chunks."""
    found, start = list[Repeat](), 0
    lengths = np.maximum(s.lengths, 1)
    for block in s.blocks:
        if block.times > 1 and block.rounds:
            found.append(Repeat(start, block.rounds, block.times, _moves(block.shift)))
        elif block.rounds:
            found += _single(block, start, lengths)
        start += block.rounds * block.times
    return found


def _moves(shift: Shift) -> str:
    return format_head(Block(Transfers.of([], [], []), 2, shift)).partition(", ")[2]


def _single(block: Block, start: int, lengths: NDArray[np.int64]) -> Iterator[Repeat]:
    """The rounds of a block that is done once; runs of such as only move chunks are one repeat."""
    rounds = [Transfers.concatenate([])] * block.rounds
    for part in block.rows.by_round():
        rounds[int(part.round[0])] = part
    first = 0
    while first < len(rounds):
        times, shift = 1, None
        while first + times < len(rounds):
            step = _step(rounds[first + times - 1], rounds[first + times], lengths)
            if step is None or (shift is not None and step != shift):
                break
            times, shift = times + 1, step
        yield Repeat(start + first, 1, times, _moves(shift or Shift()))
        first += times


def _step(a: Transfers, b: Transfers, lengths: NDArray[np.int64]) -> Shift | None:
    """The shift of the chunks of round `b` from those of `a`; None where the rounds differ otherwise."""
    if not len(a) or len(a) != len(b) or any(not np.array_equal(getattr(a, x), getattr(b, x)) for x in ALIKE):
        return None
    by: list[int] = []
    for side in ("source", "target"):
        length = lengths[getattr(a, f"{side}_buffer")]
        gone = getattr(b, f"{side}_chunk").astype(np.int64) - getattr(a, f"{side}_chunk")
        steps = gone % length
        if np.any(steps != steps[0]):
            return None
        by.append(int(steps[0]) - (int(length[0]) if 2 * steps[0] > length[0] else 0))
    return Shift(source_chunk=by[0], target_chunk=by[1])
