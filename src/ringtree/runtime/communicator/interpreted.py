"""Reductions by a Python function. The engine runs no Python; but a program is data, and Python can read it too.

This rank's lowered program is interpreted here: a chunk is an array of the user's kind, copies are references, a
reduction calls the function, and signals and waits are messages of a group of its own. Slots need no release.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.ir.collective import collective as find_collective
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.plan import choose_whole
from ringtree.runtime.arrays import Array, new, readable
from ringtree.runtime.communicator.messages import Operation
from ringtree.runtime.communicator.operations import Op
from ringtree.runtime.engines.engine import Terms

if TYPE_CHECKING:
    from ringtree.runtime.communicator.calls import Request

Chunks = list[Array]
Shape = tuple[int, ...]


def check(program: Program, op: Op, in_rank_order: bool) -> None:
    """ValueError where the program cannot serve a function that takes all of `x`, or needs the order of the ranks.
    `in_rank_order`: whether it joins only neighbouring runs of ranks; asked for where `op` does not commute."""
    p = program
    blocks = p.ranks if find_collective(p.collective).blocked else 1
    if p.chunks != blocks:
        raise ValueError(
            f"{p.name} cuts x into {p.chunks} pieces and {op.name} takes it whole: expected an algorithm of "
            f"{blocks}, such as {choose_whole(p.collective, p.ranks).algorithm}"
        )
    if not op.commutative and not in_rank_order:
        raise ValueError(
            f"{p.name} does not join {p.collective} in rank order and {op.name} is not said to be commutative: "
            f"expected {choose_whole(p.collective, p.ranks).algorithm}, or Op(..., commutative=True)"
        )


def perform(program: Program, op: Op, request: Request, seats: tuple[Any, ...], terms: Terms) -> None:
    """Reduces the request's `x` into its `out`. Messages go through the first of the seats; all fail with it."""
    x, out, n = request.x, request.out, program.ranks
    assert x is not None
    if not find_collective(program.collective).blocked:
        shapes, blocks = [x.shape], [x]
    else:
        rows = [x.shape[0] // n] * n
        if request.counts is not None:
            rows = (request.counts // max(math.prod(x.shape[1:]), 1)).tolist()
        ends = list(accumulate(rows))
        shapes = [(r, *x.shape[1:]) for r in rows]
        blocks = [readable(x.owner[end - r : end], x.named) for r, end in zip(rows, ends, strict=True)]
    result = Interpreter(seats, terms, program, op, x, shapes).run(blocks)
    if out is not None:
        out.owner.reshape(-1)[:] = result[0].owner.reshape(-1)


class Interpreter:
    """One call. Every chunk has the kind and type of `like`, and the shape of its place on the whole vector."""

    def __init__(
        self, seats: tuple[Any, ...], terms: Terms, program: Program, op: Op, like: Array, shapes: list[Shape]
    ) -> None:
        self._seats, self._terms, self._program, self._op = seats, terms, program, op
        self._like, self._shapes = like, shapes
        self._memory: dict[tuple[int, int], Array] = {}  # (space, chunk)
        self._passing: dict[tuple[int, int], Chunks] = {}  # (SLOT or MESSAGE, register)
        self._outbox: list[Operation] = []
        self._kept: Chunks = []  # what lies in the outbox

    def run(self, inputs: Chunks) -> Chunks:
        """From the chunks of this rank's input to those of its output."""
        self._memory.update({(Space.INPUT, i): _guarded(chunk) for i, chunk in enumerate(inputs)})
        code = self._program.instructions
        for at, i in enumerate(code):
            if i.kind in (Kind.COPY, Kind.REDUCE):
                self._compute(i)
            elif i.kind is Kind.SIGNAL:
                self._send(i)
            elif i.kind is Kind.WAIT:
                self._receive(i, code[at + 1 :])
        self._exchange([])
        owed = sorted(i for space, i in self._memory if space == Space.OUTPUT)
        return [self._memory[Space.OUTPUT, i] for i in owed]

    def _compute(self, i: Instruction) -> None:
        sources = [self._read(o) for o in i.sources]
        result = sources[0]
        for other in sources[1:]:
            result = [self._join(a, b) for a, b in zip(result, other, strict=True)]
        for o in i.targets:
            if o.space is Space.SLOT:
                self._passing[o.space, o.index] = result
            else:
                self._memory.update({(o.space, o.index + k): chunk for k, chunk in enumerate(result)})

    def _read(self, o: Operand) -> Chunks:
        if o.space in (Space.SLOT, Space.MESSAGE):
            return self._passing[o.space, o.index]
        return [self._memory[o.space, o.index + k] for k in range(o.count)]

    def _join(self, a: Array, b: Array) -> Array:
        """The function's value, held to what it must be. Where it fails all ranks hear of it: who waits for the result
        would wait in vain."""
        like, name = self._like, self._op.name
        try:
            value = self._op.function(a.owner, b.owner)
            if value is None:
                raise TypeError(f"the operation {name} returned None; expected the joined array")
            joined = readable(value, like.named)
            alike = isinstance(joined.owner, np.ndarray) == isinstance(like.owner, np.ndarray)
            if (joined.dtype, joined.shape) != (like.dtype, a.shape) or not alike:
                raise TypeError(
                    f"the operation {name} returned a {type(joined.owner).__name__} of {joined.dtype.label} and shape "
                    f"{joined.shape}; expected a {type(like.owner).__name__} of {like.dtype.label} and shape "
                    f"{a.shape}, as it was given"
                )
        except BaseException as error:
            who = f"rank {self._terms.names[self._terms.rank]}"
            for seat in self._seats:
                seat.poison(f"the operation {name} failed on {who}: {type(error).__name__}: {error}")
            raise
        return _guarded(joined)

    def _send(self, i: Instruction) -> None:
        for chunk in self._passing[Space.SLOT, i.register] if i.register >= 0 else []:
            self._outbox.append((True, i.peer, 0, chunk.address, chunk.nbytes, int(chunk.dtype), False))
            self._kept.append(chunk)

    def _receive(self, i: Instruction, later: tuple[Instruction, ...]) -> None:
        if i.register < 0:
            return
        reader = next(o for j in later for o in j.sources if (o.space, o.index) == (Space.MESSAGE, i.register))
        span = slice(reader.label, reader.label + reader.count)  # who reads a message says which chunks it has
        chunks = [new(self._like, shape) for shape in self._shapes[span]]
        self._exchange([(False, i.peer, 0, c.address, c.nbytes, int(c.dtype), False) for c in chunks])
        self._passing[Space.MESSAGE, i.register] = [_guarded(c) for c in chunks]

    def _exchange(self, receives: list[Operation]) -> None:
        """Sends all that there is to send and waits for what is to come. Whoever waits takes in what others send, so
        that two who send to each other, or in a circle, do not wait for one another."""
        if self._outbox or receives:
            self._seats[0].exchange(self._outbox + receives, self._terms.timeout_s)
            self._outbox, self._kept = [], []


def _guarded(chunk: Array) -> Array:
    """The same, read-only where that can be said: a function that changes its arguments would change the user's, or
    what is yet to be sent."""
    if not isinstance(chunk.owner, np.ndarray):
        return chunk
    owner = chunk.owner.view()
    owner.flags.writeable = False
    return Array(owner, chunk.address, chunk.shape, chunk.dtype, chunk.count, named=chunk.named)
