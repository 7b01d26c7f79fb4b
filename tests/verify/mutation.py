"""Every schedule that differs from a given one by a single transfer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers


@dataclass(frozen=True)
class Mutant:
    """`change` says what was done to transfer number `row`."""

    change: str
    row: int
    schedule: Schedule


def mutants(schedule: Schedule) -> Iterator[Mutant]:
    """With one transfer removed, duplicated, redirected to another rank, or reading or writing another chunk (every
    other one there is), or moved earlier by a round."""
    rows = schedule.expand()

    def mutant(change: str, row: int, changed: Transfers) -> Mutant:
        return Mutant(change, row, replace(schedule, blocks=(Block(changed),) if len(changed) else ()))

    for i in range(len(rows)):
        before, it, after = rows.take(slice(0, i)), rows.take(slice(i, i + 1)), rows.take(slice(i + 1, None))
        yield mutant("removed", i, Transfers.concatenate([before, after]))
        yield mutant("duplicated", i, Transfers.concatenate([before, it, it, after]))
        for change, column, values in _redirections(schedule, rows, i):
            for value in values:
                other = replace(it, **{column: np.array([value], dtype=np.int32)})
                yield mutant(change, i, Transfers.concatenate([before, other, after]))
        round_ = int(rows.round[i])
        if round_ > 0:
            first = int(np.searchsorted(rows.round, round_))
            earlier = replace(it, round=it.round - np.int32(1))
            parts = [rows.take(slice(0, first)), earlier, rows.take(slice(first, i)), after]
            yield mutant("earlier", i, Transfers.concatenate(parts))


def _redirections(schedule: Schedule, rows: Transfers, i: int) -> Iterator[tuple[str, str, list[int]]]:
    """(what it is called, column, the other values it could have)."""
    yield "other rank", "target", [r for r in range(schedule.participants) if r != rows.target[i]]
    for change, side in (("other source chunk", "source"), ("other target chunk", "target")):
        buffer, chunk = getattr(rows, f"{side}_buffer")[i], getattr(rows, f"{side}_chunk")[i]
        last = _length(schedule, int(buffer)) - int(rows.count[i])
        yield change, f"{side}_chunk", [c for c in range(last + 1) if c != chunk]


def _length(schedule: Schedule, buffer: int) -> int:
    return schedule.buffer_chunks(Buffer(buffer))
