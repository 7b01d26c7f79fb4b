"""Programs over messages: chunks of any kind of array, and arithmetic of the caller's.

An engine runs programs on bytes, by arithmetic of its own. Where the arithmetic is Python's, or an endpoint has
messages and nothing else, the same program runs here: a chunk is an array, a copy is a reference to it, a signal sends
the arrays of a slot, and a wait receives them. Slots need no release.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.runtime.arrays import Array
from ringtree.runtime.engines.protocols import Messages

Chunks = list[Array]


class ProgramOverMessages:
    """One run of a program of one rank. `combine(a, b)` joins two chunks, `a` the earlier in the listed order; `empty`
    makes an array for a chunk by its label. A chunk that is read by others, or received, is not changed."""

    def __init__(
        self,
        program: Program,
        messages: Messages,
        timeout_s: float,
        combine: Callable[[Array, Array], Array],
        empty: Callable[[int], Array],
    ) -> None:
        self._program, self._messages, self._timeout_s = program, messages, timeout_s
        self._combine, self._empty = combine, empty
        self._memory: dict[tuple[int, int], Array] = {}  # (space, chunk)
        self._passing: dict[tuple[int, int], Chunks] = {}  # (SLOT or MESSAGE, register)
        self._unsent: list[tuple[int, Array]] = []  # (peer, chunk)

    def run(self, inputs: Chunks) -> Chunks:
        """Runs the program: takes the chunks of this rank's input and returns those of its output, in the order of
        indices."""
        self._memory.update({(Space.INPUT, i): chunk for i, chunk in enumerate(inputs)})
        code = self._program.instructions
        for at, i in enumerate(code):
            if i.kind in (Kind.COPY, Kind.REDUCE):
                self._compute(i)
            elif i.kind is Kind.SIGNAL and i.register >= 0:
                self._unsent += [(i.peer, chunk) for chunk in self._passing[Space.SLOT, i.register]]
            elif i.kind is Kind.WAIT and i.register >= 0:
                self._receive(i, code[at + 1 :])
        self._exchange(-1, [])
        return [self._memory[key] for key in sorted(p for p in self._memory if p[0] == Space.OUTPUT)]

    def _compute(self, i: Instruction) -> None:
        sources = [self._read(o) for o in i.sources]
        result = [reduce(self._combine, chunks) for chunks in zip(*sources, strict=True)]
        for o in i.targets:
            if o.space is Space.SLOT:
                self._passing[o.space, o.index] = result
            else:
                self._memory.update({(o.space, o.index + k): chunk for k, chunk in enumerate(result)})

    def _read(self, o: Operand) -> Chunks:
        if o.space in (Space.SLOT, Space.MESSAGE):
            return self._passing[o.space, o.index]
        return [self._memory[o.space, o.index + k] for k in range(o.count)]

    def _receive(self, i: Instruction, later: tuple[Instruction, ...]) -> None:
        # the instruction that reads a message has the message's chunks
        reader = next(o for j in later for o in j.sources if (o.space, o.index) == (Space.MESSAGE, i.register))
        chunks = [self._empty(label) for label in range(reader.label, reader.label + reader.count)]
        self._exchange(i.peer, chunks)
        self._passing[Space.MESSAGE, i.register] = chunks

    def _exchange(self, peer: int, receives: Chunks) -> None:
        """Sends all that is unsent and receives these chunks. A rank that waits takes in what others send, so that two
        ranks that send to each other, or several in a circle, do not wait for one another."""
        moves = [(True, to, chunk) for to, chunk in self._unsent] + [(False, peer, chunk) for chunk in receives]
        if moves:
            self._messages.exchange(
                [(sends, to, 0, c.address, c.nbytes, int(c.dtype), False) for sends, to, c in moves], self._timeout_s
            )
            self._unsent = []
