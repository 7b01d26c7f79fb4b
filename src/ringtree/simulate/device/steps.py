"""Programs of thread blocks as steps with bytes, piece by piece and slice by slice.

A thread block's instructions are grouped into its *block steps*: a send (a copy into a slot, its signal), a receive (a
wait, a copy, a release), both in one, a reduction, a copy. Each slice of a block step has rows for all its
instructions. The thread block itself moves a message's bytes, so the row of a signal is followed by one that waits for
the message's arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.simulate.device.constants import DeviceConstants
from ringtree.simulate.reading import NBYTES, NUMBER, ProgramReader, StepRows, channels
from ringtree.simulate.steps import AFTER, LAND, MARK, NONE, Ints, StepTable, ThreadSteps


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSteps:
    """`table`: the rows. Columns [rows] of what costs time on a thread block: `begins`, how many block steps begin in
    the row; `copied`, the bytes that it copies beside messages; `added`, the bytes of further sources of reductions."""

    table: StepTable
    begins: Ints
    copied: Ints
    added: Ints

    def busy_s(self, constants: DeviceConstants) -> NDArray[np.float64]:
        """Seconds that each row keeps its thread block busy, without waiting."""
        lasts_s: NDArray[np.float64] = (
            self.begins * constants.step_s + self.copied / constants.block_Bps + self.added / constants.reduce_Bps
        )
        return lasts_s


def device_steps(programs: Sequence[Program], sizes: Ints, pieces: int, slices: int) -> DeviceSteps:
    """The steps of every rank's program in so many pieces and slices. `sizes`: bytes of a chunk by its label."""
    table, edges = StepRows(), [0, *np.cumsum(sizes).tolist()]
    costs: list[tuple[int, int, int, int]] = []
    for program in programs:
        reader = _BlockReader(table, program, edges, channels(programs), True)
        reader.pieces, reader.slices, reader.costs = pieces, slices, costs
        reader.read()
    columns = np.zeros((3, len(table.rows)), np.int64)
    if costs:
        row, *values = np.array(costs, np.int64).T
        columns[:, row] = values
    return DeviceSteps(table.paired(True), *columns)


def block_steps(code: Sequence[Instruction]) -> list[list[Instruction]]:
    """The instructions by block step: one copy or reduction, with the waits before it, and the signals and releases
    after it."""
    steps: list[list[Instruction]] = []
    moved = True
    for i in code:
        begins = i.kind in (Kind.COPY, Kind.REDUCE, Kind.WAIT)
        if not steps or (begins and moved):
            steps.append([])
            moved = False
        steps[-1].append(i)
        moved = moved or i.kind != Kind.WAIT
    return steps


class _BlockReader(ProgramReader):
    """Reads one rank's program; `costs`: rows with the values of the columns of DeviceSteps."""

    pieces: int
    slices: int
    costs: list[tuple[int, int, int, int]]

    def read(self) -> None:
        table, marks = self.table, dict[tuple[int, int, int], int]()
        threads = [block_steps(code) for code in self.program.threads]
        step_of = [[n for n, step in enumerate(steps) for _ in step] for steps in threads]
        needed = {(t, step_of[t][at]) for code in self.program.threads for i in code for t, at in i.after}
        later: list[tuple[int, tuple[int, int, int]]] = []
        for number, steps in enumerate(threads):
            first = len(table.rows)
            self._begin(number, self.program.threads[number])
            for piece in range(self.pieces):
                self.piece = piece
                for at, step in enumerate(steps):
                    for thread, before in dict.fromkeys((t, step_of[t][s]) for i in step for t, s in i.after):
                        later.append((self._add(AFTER), (thread, before, piece)))
                    self._block_step(step)
                    if (number, at) in needed:
                        marks[number, at, piece] = self._add(MARK)
            table.threads.append(ThreadSteps(self.rank, 0, first, len(table.rows)))
        for row, dependence in later:
            table.rows[row][NUMBER] = marks[dependence]

    def _block_step(self, step: Sequence[Instruction]) -> None:
        for part in range(self.slices):
            self.slice = part
            for i in step:
                bare = i.kind in (Kind.SIGNAL, Kind.WAIT) and i.register < 0
                if not (part and bare) and not self._in_place(i):
                    self._step(i)

    def _in_place(self, i: Instruction) -> bool:
        """Whether the instruction copies a chunk to where it is: input and output are one memory, if they may be."""
        o = i.sources[0] if i.kind == Kind.COPY else None
        return (
            self.program.aliasable
            and o is not None
            and o.space == Space.INPUT
            and all(t.space == Space.OUTPUT and t[2:] == o[2:] for t in i.targets)
        )

    def _nbytes(self, o: Operand) -> int:
        """The bytes of the slice."""
        nbytes, parts, part = super()._nbytes(o), self.pieces * self.slices, self.piece * self.slices + self.slice
        return nbytes * (part + 1) // parts - nbytes * part // parts

    def _signal(self, i: Instruction) -> None:
        super()._signal(i)
        if i.register >= 0:
            self._add(LAND, self.table.lanes[self.rank, i.peer, i.channel].signals[-1])

    def _move(self, i: Instruction) -> int:
        row = super()._move(i)
        nbytes = self.table.rows[row][NBYTES]
        by_message = any(o.space == Space.SLOT or o.rank not in (NONE, self.rank) for o in (*i.targets, *i.sources))
        self.costs.append((row, not self.slice, 0 if by_message else nbytes, nbytes * (len(i.sources) - 1)))
        return row
