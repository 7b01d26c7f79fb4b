"""Plays programs on symbolic contents, independently of the schedule they came from.

A chunk's content is (label, origins): a position on the whole vector, and the ranks, as bits, wanted_of chunk of that
label was added up in it; NOTHING where it is unwritten, and a label of SPOILED where labels were mixed, a rank was
counted twice or NOTHING was added. Chunks of a label (and of an origin, where the collective transposes) have a size of
their own, so an instruction must name it: the proof holds for the uneven forms too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ringtree.ir.collective import REDUCED, collective
from ringtree.ir.program import Instruction, Operand, Program, Space
from ringtree.verify.progress import Runs
from ringtree.verify.wiring import INPUT, MESSAGE, REDUCE, SIGNAL, SLOT, WAIT, Wiring
from ringtree.verify.wording import ProofError, origins_of, promise_in_words, ranks_in_words, value_in_words

Value = tuple[int, int]
NOTHING: Value = (-1, 0)
SPOILED = -2
"""The label of a spoiled chunk, whose origins are then the step that spoiled it, as thread << 32 | step."""


def replay(w: Wiring, runs: Runs, *, even: bool = False, alike: bool = False) -> None:
    """Raises ProofError unless the execution `runs` leaves every rank with the postcondition.

    `even`: all chunks are of one size, so that labels of operands need not be right. `alike`: where the collective
    transposes, all blocks are cut alike, so that labels may be of another block.
    """
    machine = _Machine(w, even=even, alike=alike)
    for thread, first, stop in runs:
        machine.run(thread, first, stop)
    for p in w.programs:
        machine.check(p, runs)


class _Machine:
    """Every rank's memory, as (list, offset of the space in it) per space; registers per thread; lanes."""

    def __init__(self, w: Wiring, *, even: bool, alike: bool) -> None:
        self.w, self.in_place = w, w.in_place
        self.promise = collective(w.programs[0].collective)
        self.memory = [self._memory(p) for p in w.programs]
        self.slots: list[dict[int, list[Value]]] = [{} for _ in w.threads]
        self.messages: list[dict[int, list[Value]]] = [{} for _ in w.threads]
        self.lanes: dict[tuple[int, int, int], deque[list[Value]]] = {}
        for lane in w.lanes:
            self.lanes[lane.source, lane.target, lane.channel] = deque()
        p = w.programs[0]
        block = p.chunks // p.ranks if self.promise.transposes else 0
        self.period = 1 if even else block if alike else 0
        self.wide = p.chunks if block and not self.period else 0  # labels an origin has for itself
        self.watch = [not w.in_place and p.aliasable for p in w.programs]

    def _memory(self, p: Program) -> tuple[tuple[list[Value], int], ...]:
        precondition, postcondition = self._windows(p)
        whole = [NOTHING] * p.chunks
        for label in precondition:
            whole[label] = (label, 1 << p.rank)
        scratch = ([NOTHING] * p.scratch, 0)
        if self.in_place:
            return (whole, precondition.start), (whole, postcondition.start), scratch
        return (whole[precondition.start : precondition.stop], 0), ([NOTHING] * len(postcondition), 0), scratch

    def _windows(self, p: Program) -> tuple[range, range]:
        where = (p.rank, p.ranks, p.chunks, p.root or 0)
        return self.promise.precondition(*where), self.promise.postcondition(*where)

    def run(self, thread: int, first: int, stop: int) -> None:
        """Steps first … stop-1 of one thread; every message they wait for is there."""
        rank, code = self.w.threads[thread].rank, self.w.threads[thread].code
        slots, messages, lanes, memory = self.slots[thread], self.messages[thread], self.lanes, self.memory
        for step in range(first, stop):
            i = code[step]
            kind = i[0]
            if kind <= REDUCE:
                sources = i[2]
                values = self._read(thread, step, sources[0])
                sized = sources[0][2]
                for o in sources[1:]:
                    values = self._add(values, self._read(thread, step, o), thread << 32 | step)
                for space, index, label, count, owner in i[1]:
                    if label != sized and (not self.period or (label - sized) % self.period):
                        raise self._mislabelled(thread, step, sized, label)
                    if space == SLOT:
                        slots[index] = values
                    else:
                        cells, start = memory[owner if owner >= 0 else rank][space]
                        cells[start + index : start + index + count] = values
            elif kind == SIGNAL:
                if i.register >= 0:
                    lanes[rank, i.peer, i.channel].append(slots[i.register])
            elif kind == WAIT and i.register >= 0:
                messages[i.register] = lanes[i.peer, rank, i.channel].popleft()

    def _read(self, thread: int, step: int, o: Operand) -> list[Value]:
        space, index, label, count, owner = o
        if space == SLOT:
            values = self.slots[thread][index]
        elif space == MESSAGE:
            values = self.messages[thread][index]
        else:
            rank = owner if owner >= 0 else self.w.threads[thread].rank
            cells, start = self.memory[rank][space]
            values = cells[start + index : start + index + count]
            if space == INPUT and self.watch[rank]:
                self._check_alias(thread, step, rank, index, values)
        if len(values) != count:
            raise self._refuse(thread, step, f"it reads {count} chunks where there are {len(values)}")
        if self.wide:
            for k, value in enumerate(values, label):
                if value[0] >= 0 and (sized := self.wide * (value[1].bit_length() - 1) + value[0]) != k:
                    raise self._mislabelled(thread, step, sized, k)
            return values
        for k, value in enumerate(values, label):
            if value[0] != k and value[0] >= 0 and (not self.period or (value[0] - k) % self.period):
                raise self._mislabelled(thread, step, value[0], k)
        return values

    def _mislabelled(self, thread: int, step: int, sized: int, label: int) -> ProofError:
        took, size = (
            f"rank {k // self.wide}'s chunk {k % self.wide}" if self.wide else f"chunk {k}" for k in (sized, label)
        )
        problem = (
            f"it takes {took} in place of {size}, whose size may be another; expected scratch for it, or that label on "
            "the operand"
        )
        return self._refuse(thread, step, problem)

    def _add(self, a: Sequence[Value], b: Sequence[Value], where: int) -> list[Value]:
        total: list[Value] = []
        repeats = self.promise.repeats
        for x, y in zip(a, b, strict=True):
            if x[0] == y[0] >= 0 and (repeats or not x[1] & y[1]):
                total.append((x[0], x[1] | y[1]))
            else:
                total.append(x if x[0] == SPOILED else y if y[0] == SPOILED else (SPOILED, where))
        return total

    def _check_alias(self, thread: int, step: int, rank: int, index: int, values: Sequence[Value]) -> None:
        """Refuses the read if its content would differ with input and output in one memory."""
        p = self.w.programs[rank]
        precondition, postcondition = self._windows(p)
        output = self.memory[rank][Space.OUTPUT][0]
        for position, value in enumerate(values, precondition.start + index):
            if position in postcondition and output[position - postcondition.start] not in (NOTHING, value):
                raise self._refuse(
                    thread,
                    step,
                    f"it reads chunk {position} of the input after the output was written there; the program is "
                    "aliasable (they may be the same memory)",
                )

    def _refuse(self, thread: int, step: int, problem: str) -> ProofError:
        return ProofError(f"{self.w.name}: {self.w.where(thread, step)}: {problem}", rank=self.w.threads[thread].rank)

    def check(self, p: Program, runs: Runs) -> None:
        """Raises ProofError at the first chunk of the rank's output that differs from the postcondition."""
        postcondition = self._windows(p)[1]
        position, label, origin = (c.tolist() for c in self.promise.promised(p.rank, p.ranks, p.chunks, p.root or 0))
        cells, start = self.memory[p.rank][Space.OUTPUT]
        contributors = self.promise.contributors(p.rank, p.ranks)
        reduced = (1 << len(contributors)) - 1
        for at, want, wanted_of in zip(position, label, origin, strict=True):
            value = cells[start + at - postcondition.start]
            if value != (want, reduced if wanted_of == REDUCED else 1 << wanted_of):
                raise self._explain(p, at, promise_in_words(want, wanted_of, contributors), value, runs)

    def _explain(self, p: Program, at: int, expected: str, value: Value, runs: Runs) -> ProofError:
        if value[0] == SPOILED:
            where = self.w.where(value[1] >> 32, value[1] & (1 << 32) - 1)
            there = f"a spoiled chunk: {where} added contents of different labels, or a rank twice"
        else:
            origins = origins_of(value[1])
            missing = sorted(set(self.promise.contributors(p.rank, p.ranks)) - set(origins))
            lacks = f" (missing {ranks_in_words(missing)})" if self.promise.reduces and origins and missing else ""
            index = at - self._windows(p)[1].start
            there = f"{value_in_words(value[0], origins)}{lacks}, {_last_write(self.w, runs, p.rank, index)}"
        return ProofError(
            f"{self.w.name}: rank {p.rank} chunk {at}: expected {expected}; there was {there}", rank=p.rank, chunk=at
        )


def _last_write(w: Wiring, runs: Runs, rank: int, index: int) -> str:
    """The last step that wrote chunk `index` of the rank's output, in words."""

    def writes(i: Instruction, own: int) -> bool:
        return any(
            o.space == Space.OUTPUT and (o.rank if o.rank >= 0 else own) == rank and 0 <= index - o.index < o.count
            for o in i.targets
        )

    for thread, first, stop in reversed(runs):
        for step in range(stop - 1, first - 1, -1):
            if writes(w.threads[thread].code[step], w.threads[thread].rank):
                return f"last written by {w.where(thread, step)}"
    return "which no step wrote"
