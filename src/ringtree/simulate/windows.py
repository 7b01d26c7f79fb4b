"""Programs as an engine with staging slots runs them: window by window, and short messages without a slot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ringtree.ir.program import Instruction, Kind, Operand, Program, Space

SHORT_NBYTES = 224
"""Bytes of an inline payload in a descriptor (csrc/memory/segment.h)."""


def as_run(
    programs: Sequence[Program], windows: int, message_nbytes: int, in_place: bool = False
) -> tuple[Program, ...]:
    """The programs repeated `windows` times, each time on one of as many parts of every chunk. An inline message, by
    `message_nbytes`, is sent from its source range: it is not staged, and has no bytes on any link. `in_place`: input
    and output are one memory, so copies between them are left out."""
    return tuple(_as_run(p, windows, message_nbytes <= SHORT_NBYTES, in_place) for p in programs)


def _as_run(program: Program, windows: int, short: bool, in_place: bool) -> Program:
    code = list(program.instructions)
    if in_place:
        code = list(_moving(code))
    if short:
        code = list(_unstaged(code))
    if windows > 1:
        code = [part(i, window, windows) for window in range(windows) for i in code]
    return replace(program, chunks=program.chunks * windows, threads=(tuple(code),))


def _moving(code: Sequence[Instruction]) -> Iterator[Instruction]:
    """The program without copies from the input to the same position of the output."""
    for i in code:
        here = i.kind == Kind.COPY and i.sources[0].space is Space.INPUT
        targets = tuple(
            o for o in i.targets if not (here and o.space is Space.OUTPUT and o.label == i.sources[0].label)
        )
        if targets or not i.targets:
            yield i._replace(targets=targets)


def _unstaged(code: Sequence[Instruction]) -> Iterator[Instruction]:
    """The program without instructions that only fill a slot; signals are bare."""
    for i in code:
        targets = tuple(o for o in i.targets if o.space is not Space.SLOT)
        if i.kind == Kind.SIGNAL:
            yield i._replace(register=-1)
        elif targets or not i.targets:
            yield i._replace(targets=targets)


def part(i: Instruction, window: int, windows: int) -> Instruction:
    """The instruction on one of as many parts of every chunk."""
    return i._replace(
        targets=tuple(_cut(o, window, windows) for o in i.targets),
        sources=tuple(_cut(o, window, windows) for o in i.sources),
    )


def _cut(o: Operand, window: int, windows: int) -> Operand:
    """A part of every chunk: as many labels, so as many bytes. Parts of several chunks are not contiguous."""
    return o._replace(label=o.label * windows + window * o.count)
