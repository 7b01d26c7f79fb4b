"""Programs as an engine with staging slots runs them: window by window, and short messages without a slot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ringtree.ir.program import Instruction, Kind, Operand, Program, Space

SHORT_NBYTES = 224
"""What travels within a notice: its room in csrc/memory/segment.h."""


def as_run(
    programs: Sequence[Program], windows: int, message_nbytes: int, in_place: bool = False
) -> tuple[Program, ...]:
    """The programs done `windows` times over, each on as many parts of every chunk. Where a message of `message_nbytes`
    is a short one, it is sent from where it lies: nothing is staged, and it has no bytes on any link. `in_place`: input
    and output are one memory, and what is there is not copied there."""
    return tuple(_as_run(p, windows, message_nbytes <= SHORT_NBYTES, in_place) for p in programs)


def _as_run(program: Program, windows: int, short: bool, in_place: bool) -> Program:
    code = list(program.instructions)
    if in_place:
        code = list(_moving(code))
    if short:
        code = list(_unstaged(code))
    if windows > 1:
        code = [_part(i, window, windows) for window in range(windows) for i in code]
    return replace(program, chunks=program.chunks * windows, threads=(tuple(code),))


def _moving(code: Sequence[Instruction]) -> Iterator[Instruction]:
    """Without copies from the input to the same place of the output."""
    for i in code:
        here = i.kind == Kind.COPY and i.sources[0].space is Space.INPUT
        targets = tuple(
            o for o in i.targets if not (here and o.space is Space.OUTPUT and o.label == i.sources[0].label)
        )
        if targets or not i.targets:
            yield i._replace(targets=targets)


def _unstaged(code: Sequence[Instruction]) -> Iterator[Instruction]:
    """Without what only fills a slot; signals are bare."""
    for i in code:
        targets = tuple(o for o in i.targets if o.space is not Space.SLOT)
        if i.kind == Kind.SIGNAL:
            yield i._replace(register=-1)
        elif targets or not i.targets:
            yield i._replace(targets=targets)


def _part(i: Instruction, window: int, windows: int) -> Instruction:
    return i._replace(
        targets=tuple(_cut(o, window, windows) for o in i.targets),
        sources=tuple(_cut(o, window, windows) for o in i.sources),
    )


def _cut(o: Operand, window: int, windows: int) -> Operand:
    """As many labels, which is as many bytes: those of several chunks' parts do not lie together."""
    return o._replace(label=o.label * windows + window * o.count)
