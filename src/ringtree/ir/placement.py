"""A rank's placement of the chunks of DATA when its input and output are two buffers.

A schedule in the in-place view has one vector. A rank's copy of chunk k lies in its input until it is first
written, then in its *home*: the output, or scratch where the output does not reach. So the input is never changed, a
reduction into an untouched chunk becomes `home <- input + received`, and a caller who passes the same memory twice
gets the in-place form without another lowering.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Instruction, Kind, Operand, Space
from ringtree.ir.schedule import Buffer, Schedule, Transfers


class Placement:
    """One rank's DATA chunks while its program is being written; `rows` are all rows that touch the rank."""

    def __init__(self, schedule: Schedule, rank: int, rows: Transfers) -> None:
        self.precondition, self.postcondition = schedule.precondition(rank), schedule.postcondition(rank)
        self.chunks = schedule.chunks
        self.label = rank * schedule.chunks if schedule.promise.transposes else 0  # of the input's position 0
        self.mirror = schedule.scratch  # scratch chunk mirror+k is the home of chunk k outside the output
        self._start = {
            Space.INPUT: self.precondition.start,
            Space.OUTPUT: self.postcondition.start,
            Space.SCRATCH: -self.mirror,
        }
        self.written = np.zeros(schedule.chunks, dtype=np.bool_)
        self.direct = not _crosses(self.postcondition, rank, rows)
        self.gathered = False  # whether a range that was read had both written and unwritten chunks in the input

    def operand(self, space: Space, chunk: int, count: int) -> Operand:
        """Chunks of the whole vector as they lie in the input, the output or the scratch mirror."""
        return Operand(space, chunk - self._start[space], self.label + chunk, count)

    def home(self, chunk: int, count: int) -> Operand:
        """Returns where the range is kept after a write: output or scratch."""
        inside = self.direct and chunk in self.postcondition and chunk + count <= self.postcondition.stop
        return self.operand(Space.OUTPUT if inside else Space.SCRATCH, chunk, count)

    def read(self, chunk: int, count: int) -> tuple[Operand, list[Instruction]]:
        """The operand of the range, after instructions that gather it where part of it lies elsewhere."""
        touched = self.written[chunk : chunk + count]
        if touched.all():
            return self.home(chunk, count), []
        if chunk in self.precondition and chunk + count <= self.precondition.stop and not touched.any():
            return self.operand(Space.INPUT, chunk, count), []
        moves = []
        low, high = max(chunk, self.precondition.start), min(chunk + count, self.precondition.stop)
        self.gathered |= bool(self.written[low:high].any())
        for k, c in self._untouched(chunk, count):
            moves.append(Instruction(Kind.COPY, (self.home(k, c),), (self.operand(Space.INPUT, k, c),)))
            self.written[k : k + c] = True
        return self.home(chunk, count), moves

    def write(self, chunk: int, count: int) -> Operand:
        """Marks the range as written and returns where it is kept."""
        self.written[chunk : chunk + count] = True
        return self.home(chunk, count)

    def finish(self) -> Iterator[Instruction]:
        """Copies the rest of the postcondition into the output: untouched input, and chunks kept in scratch."""
        for k, c in self._untouched(self.postcondition.start, len(self.postcondition)):
            yield Instruction(Kind.COPY, (self.operand(Space.OUTPUT, k, c),), (self.operand(Space.INPUT, k, c),))
        if not self.direct:
            for k, c in _runs(self.written, self.postcondition.start, len(self.postcondition)):
                yield Instruction(Kind.COPY, (self.operand(Space.OUTPUT, k, c),), (self.home(k, c),))

    def _untouched(self, chunk: int, count: int) -> list[tuple[int, int]]:
        """The runs of the range that still lie in the input only."""
        low, high = max(chunk, self.precondition.start), min(chunk + count, self.precondition.stop)
        return list(_runs(~self.written, low, max(high - low, 0)))


def _crosses(postcondition: range, rank: int, rows: Transfers) -> bool:
    """Whether the rank touches a range of DATA that lies partly in its output window, partly outside."""
    for at, buffer, chunk in (
        (rows.source, rows.source_buffer, rows.source_chunk),
        (rows.target, rows.target_buffer, rows.target_chunk),
    ):
        mine = (at == rank) & (buffer == Buffer.DATA)
        low, high = chunk[mine], chunk[mine] + rows.count[mine]
        overlaps = (low < postcondition.stop) & (high > postcondition.start)
        if np.any(overlaps & ((low < postcondition.start) | (high > postcondition.stop))):
            return True
    return False


def _runs(flags: NDArray[np.bool_], start: int, count: int) -> Iterator[tuple[int, int]]:
    """Maximal runs of True within the range, as (start, length)."""
    part = np.concatenate([[False], flags[start : start + count], [False]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(part)).tolist()
    for low, high in zip(edges[::2], edges[1::2], strict=True):
        yield start + low, high - low
