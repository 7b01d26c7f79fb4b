"""A schedule's transfers as rounds of streams, for writers of files in which thread blocks work side by side.

Transfers of two streams share no chunk of any rank's memory, so that nothing orders them. Where a schedule has more of
such sets than a machine has thread blocks, several are one stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Buffer, Schedule, Transfers

MOST_ROWS = 1 << 20
"""Far more than a file of at most 64 thread blocks of 64 steps a gpu can have."""

Cell = tuple[int, int, int]
"""(rank, Buffer, chunk)."""


class NotExpressible(ValueError):
    """A schedule that a format has no words for. The message has the reason and the format's limit."""


class StreamMove(NamedTuple):
    """A transfer of a stream. `stream`, `round`, then as a schedule's row."""

    stream: int
    round: int
    source: int
    target: int
    source_buffer: int
    source_chunk: int
    target_buffer: int
    target_chunk: int
    count: int  # type: ignore[assignment]  # as an operand's
    reduce: bool

    @property
    def read(self) -> list[Cell]:
        """The chunks that it reads."""
        return [(self.source, self.source_buffer, self.source_chunk + k) for k in range(self.count)]

    @property
    def written(self) -> list[Cell]:
        """The chunks that it writes."""
        return [(self.target, self.target_buffer, self.target_chunk + k) for k in range(self.count)]

    @property
    def local(self) -> bool:
        """Whether it stays within a rank."""
        return self.source == self.target


class Streams:
    """A schedule's transfers by the set that each is of, where transfers of two sets share no chunk. NotExpressible:
    for switches, or more than MOST_ROWS chunks moved."""

    def __init__(self, schedule: Schedule) -> None:
        if schedule.switches:
            raise NotExpressible(f"{schedule.name} has {schedule.switches} switches; expected ranks only")
        rows = schedule.expand() if schedule.transfers <= MOST_ROWS else None
        if rows is None or int(rows.count.sum()) > MOST_ROWS:
            raise NotExpressible(f"{schedule.name} moves more than {MOST_ROWS:,} chunks; expected at most as many")
        columns = (rows.round, rows.source, rows.target, rows.source_buffer, rows.source_chunk, rows.target_buffer)
        self._columns = [c.tolist() for c in (*columns, rows.target_chunk, rows.count, rows.reduce)]
        self._sets = _independent(rows, schedule.lengths)
        self._rows = rows

    def rounds(self, most: int, most_count: int = MOST_ROWS) -> Iterator[list[StreamMove]]:
        """The moves of each round in listed order, in at most `most` streams, each of at most `most_count` chunks."""
        for _, each in groupby(self._moves(most, most_count), key=lambda move: move.round):
            yield list(each)

    def received(self) -> NDArray[np.int64]:
        """The number of transfers that each rank receives from others, [ranks]."""
        rows = self._rows
        return np.bincount(rows.target[rows.source != rows.target]).astype(np.int64)

    def most_operations(self, most: int, sending: int, receiving: int, reducing: int) -> int:
        """The most operations of a rank in one stream, of at most `most` streams: so many for each round in which it
        sends, receives, and receives what it adds."""
        rows = self._rows
        far = rows.source != rows.target
        stream = np.array(self._sets, dtype=np.int64) % most
        ranks, rounds = 1 + int(max(rows.source.max(initial=0), rows.target.max(initial=0))), rows.round.max(initial=0)
        operations = np.zeros(most * ranks, np.int64)
        for rank, of, each in (
            (rows.source, far, sending),
            (rows.target, far, receiving),
            (rows.target, far & (rows.reduce != 0), reducing),
        ):
            block = stream[of] * ranks + rank[of]
            different = np.unique(block * (1 + int(rounds)) + rows.round[of]) // (1 + int(rounds))
            operations += each * np.bincount(different, minlength=most * ranks)
        return int(operations.max(initial=0))

    def _moves(self, most: int, most_count: int) -> Iterator[StreamMove]:
        for number, values in zip(self._sets, zip(*self._columns, strict=True), strict=True):
            move = StreamMove(number % most, *values)
            for done in range(0, move.count, most_count):
                part = move._replace(source_chunk=move.source_chunk + done, target_chunk=move.target_chunk + done)
                yield part._replace(count=min(most_count, move.count - done))


def _independent(rows: Transfers, lengths: NDArray[np.int64]) -> list[int]:
    """The number of each row's set. Cost: O(chunks moved)."""
    first = np.concatenate([[0], np.cumsum(lengths)])
    ends = [
        (first[buffer] + chunk + rank.astype(np.int64) * first[-1]).tolist()
        for rank, buffer, chunk in (
            (rows.source, rows.source_buffer, rows.source_chunk),
            (rows.target, rows.target_buffer, rows.target_chunk),
        )
    ]
    above: dict[int, int] = {}

    def top(cell: int) -> int:
        path = []
        while (next_ := above.get(cell, cell)) != cell:
            path.append(cell)
            cell = next_
        above.update(dict.fromkeys(path, cell))
        return cell

    counts = rows.count.tolist()
    for source, target, count in zip(*ends, counts, strict=True):
        for k in range(count):
            above[top(target + k)] = top(source)
            above[top(source + k)] = top(source)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(top(source), len(numbers)) for source in ends[0]]


BUFFERS = {Buffer.INPUT: "i", Buffer.OUTPUT: "o", Buffer.SCRATCH: "s"}


def letter(schedule: Schedule, buffer: int) -> str:
    """The name of a buffer in MSCCL's and MSCCL++'s files: in place, i or o, whichever is the whole vector."""
    if buffer == Buffer.DATA:
        return "o" if schedule.collective == "all_gather" else "i"
    return BUFFERS[Buffer(buffer)]


THEIRS = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "all_to_all": "alltoall",
}
"""Our names of collectives, and MSCCL's and MSCCL++'s."""


def their_collective(schedule: Schedule, format_name: str) -> str:
    """The file's name of the collective. NotExpressible: where there is none."""
    if schedule.collective not in THEIRS:
        expected = ", ".join(THEIRS)
        raise NotExpressible(f"{format_name} has no {schedule.collective}; expected one of {expected}")
    return THEIRS[schedule.collective]
