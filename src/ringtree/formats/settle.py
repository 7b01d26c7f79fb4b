"""Turns programs in a file's own terms into programs that any engine may run: labels filled in, and for programs
written in place, every operand made input, output or scratch, so that they are valid out of place as well.

In place, a chunk is read from the input until it is first written, and from its home afterwards: the output, or
scratch beyond the file's own where the output does not reach. Chunks that are never written, or that are read
together with written ones, are first copied to their home by an additional thread; where input and output are the same
memory this copy does nothing. Where a step touches chunks inside and outside of a rank's output at once, all homes of
that rank are scratch, and a last thread copies the output from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ringtree.formats.execution import At, Execution, NamedMemory
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.schedule import Buffer


def settle(programs: Sequence[Program], memory: NamedMemory, execution: Execution) -> tuple[Program, ...]:
    """The programs, ready to be proved and run."""
    settler = _Settler(programs, memory, execution)
    threads = [settler.threads(p) for p in programs]  # all, before the ranks whose homes reach into scratch are known
    return tuple(settler.program(p, t) for p, t in zip(programs, threads, strict=True))


class _Settler:
    def __init__(self, programs: Sequence[Program], memory: NamedMemory, execution: Execution) -> None:
        self.memory, self.execution = memory, execution
        self.scratch = [p.scratch for p in programs]
        self.mirrors = [False] * len(programs)  # whether the rank's homes reach into scratch
        self.copied: list[set[int]] = [set() for _ in programs]
        self.apart: set[int] = set()  # the ranks whose homes are all in scratch
        if memory.aliased:
            for rank in range(memory.ranks):
                precondition, postcondition = memory.precondition(rank), memory.postcondition(rank)
                self.copied[rank] = set(
                    range(max(precondition.start, postcondition.start), min(precondition.stop, postcondition.stop))
                )
            self._find_copied(programs)
            self._find_apart(programs)

    def _find_copied(self, programs: Sequence[Program]) -> None:
        """The positions to copy home at the start: those never written, and those read beside written ones."""
        mixed: list[set[int]] = [set() for _ in programs]
        for at, flags in self.execution.fresh.items():
            i = programs[at[0]].threads[at[1]][at[2]]
            for number, (o, fresh) in enumerate(zip((*i.targets, *i.sources), flags, strict=True)):
                cells = [] if not fresh else self.memory.cells(at[0], o)
                if number < len(i.targets):
                    for rank, buffer, k in cells:
                        if buffer == Buffer.DATA:
                            self.copied[rank].discard(k)
                elif any(fresh) and not all(fresh):
                    for (rank, buffer, k), untouched in zip(cells, fresh, strict=True):
                        if buffer == Buffer.DATA and untouched:
                            mixed[rank].add(k)
        for rank, positions in enumerate(mixed):
            self.copied[rank] |= positions

    def _find_apart(self, programs: Sequence[Program]) -> None:
        for at, flags in self.execution.fresh.items():
            i = programs[at[0]].threads[at[1]][at[2]]
            for o, fresh in zip((*i.targets, *i.sources), flags, strict=True):
                cells = self.memory.cells(at[0], o) if fresh and o.space in (Space.INPUT, Space.OUTPUT) else []
                if cells and len({k in self.memory.postcondition(cells[0][0]) for _, _, k in cells}) > 1:
                    self.apart.add(cells[0][0])

    def threads(self, p: Program) -> list[list[Instruction]]:
        threads = [
            [self._instruction((p.rank, t, s), i) for s, i in enumerate(code)] for t, code in enumerate(p.threads)
        ]
        postcondition = set(self.memory.postcondition(p.rank))
        inside, outside = self.copied[p.rank] & postcondition, self.copied[p.rank] - postcondition
        copies = [
            Instruction(Kind.COPY, (self._home(p.rank, k, c),), (self._input(p.rank, k, c),))
            for k, c in _runs(inside) + _runs(outside)
        ]
        if copies:  # every thread starts after them
            first = ((len(threads), len(copies) - 1),)
            threads = [[t[0]._replace(after=first + t[0].after), *t[1:]] if t else [] for t in threads]
            threads.append(copies)
        if p.rank in self.apart:  # a last thread, after all others
            window = self.memory.postcondition(p.rank)
            last = tuple((t, len(code) - 1) for t, code in enumerate(threads) if code)
            target = Operand(Space.OUTPUT, 0, window.start, len(window))
            source = self._home(p.rank, window.start, len(window))
            threads.append([Instruction(Kind.COPY, (target,), (source,), after=last)])
        return threads

    def program(self, p: Program, threads: list[list[Instruction]]) -> Program:
        scratch = p.scratch + (self.memory.chunks if self.mirrors[p.rank] else 0)
        return replace(p, threads=tuple(map(tuple, threads)), scratch=scratch, aliasable=self.memory.aliased)

    def _instruction(self, at: At, i: Instruction) -> Instruction:
        if at not in self.execution.labels:
            return i
        labels, fresh = self.execution.labels[at], self.execution.fresh[at]
        operands = [
            self._operand(at, o, label, flags, reads=number >= len(i.targets))
            for number, (o, label, flags) in enumerate(zip((*i.targets, *i.sources), labels, fresh, strict=True))
        ]
        return i._replace(targets=tuple(operands[: len(i.targets)]), sources=tuple(operands[len(i.targets) :]))

    def _operand(self, at: At, o: Operand, label: int, fresh: list[bool], *, reads: bool) -> Operand:
        if not self.memory.aliased or o.space not in (Space.INPUT, Space.OUTPUT):
            return o._replace(label=label)
        owner, _, k = self.memory.cells(at[0], o)[0]
        precondition = self.memory.precondition(owner)
        if reads and all(fresh) and k in precondition and k + o.count <= precondition.stop:
            settled = self._input(owner, k, o.count)
        else:
            settled = self._home(owner, k, o.count)
        return settled._replace(label=label, rank=o.rank)

    def _input(self, rank: int, k: int, count: int) -> Operand:
        return Operand(Space.INPUT, k - self.memory.precondition(rank).start, k, count)

    def _home(self, rank: int, k: int, count: int) -> Operand:
        postcondition = self.memory.postcondition(rank)
        if k in postcondition and rank not in self.apart:
            return Operand(Space.OUTPUT, k - postcondition.start, k, count)
        self.mirrors[rank] = True
        return Operand(Space.SCRATCH, self.scratch[rank] + k, k, count)


def _runs(positions: set[int]) -> list[tuple[int, int]]:
    """Consecutive positions as (first, count)."""
    runs: list[tuple[int, int]] = []
    for k in sorted(positions):
        if runs and sum(runs[-1]) == k:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((k, 1))
    return runs
