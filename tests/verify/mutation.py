"""Every schedule that differs from a given one by a single transfer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers


@dataclass(frozen=True)
class Mutant:
    """`change` describes the change of transfer number `row`. It is made when it is asked for: most are not chosen."""

    change: str
    row: int
    make: Callable[[], Schedule]

    @cached_property
    def schedule(self) -> Schedule:
        return self.make()


def mutants(schedule: Schedule) -> Iterator[Mutant]:
    """With one transfer removed, duplicated, redirected to another rank, or reading or writing another chunk (every
    other one there is), or moved earlier by a round."""
    rows = schedule.expand()

    def made(i: int, first: int, copies: int, **changes: int) -> Schedule:
        """Transfer i, changed so, stands `copies` times where transfer number `first` stood."""
        it = rows.take(slice(i, i + 1))
        other = replace(it, **{column: np.array([value], dtype=np.int32) for column, value in changes.items()})
        before, between, after = slice(0, first), slice(first, i), slice(i + 1, None)
        parts = [rows.take(before), *copies * [other], rows.take(between), rows.take(after)]
        changed = Transfers.concatenate(parts)
        return replace(schedule, blocks=(Block(changed),) if len(changed) else ())

    for i in range(len(rows)):
        yield Mutant("removed", i, partial(made, i, i, 0))
        yield Mutant("duplicated", i, partial(made, i, i, 2))
        for change, column, values in _redirections(schedule, rows, i):
            for value in values:
                yield Mutant(change, i, partial(made, i, i, 1, **{column: value}))
        round_ = int(rows.round[i])
        if round_ > 0:
            first = int(np.searchsorted(rows.round, round_))
            yield Mutant("earlier", i, partial(made, i, first, 1, round=round_ - 1))


def _redirections(schedule: Schedule, rows: Transfers, i: int) -> Iterator[tuple[str, str, list[int]]]:
    """(what it is called, column, the other values it could have)."""
    yield "other rank", "target", [r for r in range(schedule.participants) if r != rows.target[i]]
    for change, side in (("other source chunk", "source"), ("other target chunk", "target")):
        buffer, chunk = getattr(rows, f"{side}_buffer")[i], getattr(rows, f"{side}_chunk")[i]
        last = _length(schedule, int(buffer)) - int(rows.count[i])
        yield change, f"{side}_chunk", [c for c in range(last + 1) if c != chunk]


def _length(schedule: Schedule, buffer: int) -> int:
    return schedule.buffer_chunks(Buffer(buffer))
