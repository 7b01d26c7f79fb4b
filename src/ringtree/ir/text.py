"""Schedules as text: short, exact, parseable. A ring all_reduce over any number of ranks is three lines.

    schedule ring all_reduce: 8 ranks, 8 chunks
    7 times, chunk -1: r data[r-1] +> r+1
    7 times, chunk -1: r data[r] -> r+1

`->` stores, `+>` reduces. `r` runs over all ranks unless a `for` says otherwise; whatever has a variable in it is meant
modulo the number of ranks, or the length of its buffer. The grammar, a line at a time:

    schedule NAME COLLECTIVE: N ranks, N chunks[, root N][, N scratch][, N switches]
    HEAD: ROW; ROW; …                  a block of one round
    HEAD: nothing                      a block of no rows
    HEAD:                              a block of rounds, which follow, indented:
      round EXPR: ROW; ROW; …
             ROW; …                    (more of the same round)

    HEAD   once | N times, then what moves each time: [, WHAT ±N]…
    WHAT   rank | source | target | chunk | source chunk | target chunk    (rank, chunk: both columns)
    ROW    EXPR BUFFER[SPAN] -> EXPR [BUFFER[EXPR]] [for RANGE, …]         the target's place where it differs
    SPAN   EXPR | N:N | EXPR:+N        one chunk, from:to, from:+count
    RANGE  VAR=N..N | VAR=N,N[..N]     the second number says the step; ranges nest, the first is the outermost
    EXPR   sum of N, [N]VAR, [N]VAR^N, [N]down(VAR^N,N): exclusive or; rounded down to a multiple
    VAR    r | k | j
    NAME   a word, or a JSON string

Lines that start with # are comments. The rows of a family come in the order of its loops, families in the order they
are written: parse(format(s)) has the same blocks with the same rows in the same order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.families import (
    ROUND,
    SOURCE,
    SOURCE_CHUNK,
    TARGET,
    TARGET_CHUNK,
    Family,
    Fold,
    Loop,
    find,
    signed,
)
from ringtree.ir.parse import BARE_NAME, ScheduleTextError, parse_schedule
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers

__all__ = ["ScheduleTextError", "format_schedule", "parse_schedule"]

WIDTH = 100


def format_schedule(schedule: Schedule) -> str:
    """The schedule as text, without a newline at its end. Cost: O(rows), in numpy where they have symmetry."""
    s = schedule
    name = s.name if re.fullmatch(BARE_NAME, s.name) else json.dumps(s.name)
    facts = [f"{s.ranks} ranks", f"{s.chunks} chunks"]
    facts += [] if s.root is None else [f"root {s.root}"]
    facts += [f"{s.scratch} scratch"] if s.scratch else []
    facts += [f"{s.switches} switches"] if s.switches else []
    for block in s.blocks:
        for column in (block.rows.source_buffer, block.rows.target_buffer):
            if np.any((column < 0) | (column >= len(Buffer))):
                odd = int(column[(column < 0) | (column >= len(Buffer))][0])
                raise ValueError(f"{s.name}: speaks of buffer {odd}; expected 0..{len(Buffer) - 1}")
    lengths = np.array([s.buffer_chunks(b) for b in Buffer], dtype=np.int64)
    lines = [f"schedule {name} {s.collective}: {', '.join(facts)}"]
    for block in s.blocks:
        lines += _block(block, s.ranks, lengths)
    return "\n".join(lines)


def _block(block: Block, ranks: int, lengths: NDArray[np.int64]) -> Iterator[str]:
    head = ", ".join(["once" if block.times == 1 else f"{block.times} times", *_moves(block.shift)])
    if not len(block.rows):
        yield f"{head}: nothing"
        return
    rounds = list(_rounds(block.rows, ranks, lengths))
    if len(rounds) == 1 and rounds[0][0] == "0" and len("; ".join(rounds[0][1])) <= WIDTH:
        yield f"{head}: {'; '.join(rounds[0][1])}"
        return
    yield f"{head}:"
    for label, families in rounds:
        start = f"  round {label}: "
        line = start + families[0]
        for text in families[1:]:
            if len(line) + len(text) > WIDTH:
                yield line + ";"
                line = " " * len(start) + text
            else:
                line += "; " + text
        yield line


def _moves(shift: Shift) -> Iterator[str]:
    ends = ((("rank", "source", "target"), shift.source, shift.target),)
    chunks = ((("chunk", "source chunk", "target chunk"), shift.source_chunk, shift.target_chunk),)
    for (both, mine, theirs), source, target in ends + chunks:
        if source == target != 0:
            yield f"{both} {source:+d}"
        else:
            yield from (f"{what} {by:+d}" for what, by in ((mine, source), (theirs, target)) if by)


def _rounds(rows: Transfers, ranks: int, lengths: NDArray[np.int64]) -> Iterator[tuple[str, list[str]]]:
    """(the round's expression, its families) for each line to be; a family that spans rounds has one for itself."""
    label = ""
    families: list[str] = []
    for family in find(rows, ranks, lengths):
        expression, text = _Writer(family, rows, ranks).line()
        alone = not expression.isdigit()
        if families and (alone or expression != label):
            yield label, families
            families = []
        label = expression
        families.append(text)
        if alone:
            yield label, families
            families = []
    if families:
        yield label, families


class _Variable:
    """One loop of a family: the name, and how the fields' steps read in terms of it."""

    def __init__(self, name: str, loop: Loop, origin: int, step: int) -> None:
        self.name, self.count, self.origin, self.step = name, loop.times, origin, step
        self.factors = [b // step for b in loop.by]

    def range(self) -> str:
        last = self.origin + (self.count - 1) * self.step
        if self.step == 1:
            return f"{self.name}={self.origin}..{last}"
        return f"{self.name}={self.origin},{self.origin + self.step}" + (f"..{last}" if self.count > 2 else "")


class _Writer:
    """Writes one family. The variable of a loop is the rank or the number that makes its expressions shortest."""

    def __init__(self, family: Family, rows: Transfers, ranks: int) -> None:
        self.f, self.rows, self.ranks = family, rows, ranks
        self.variables: dict[str, _Variable] = {}
        ranked = next((i for i, loop in enumerate(family.loops) if loop.by[SOURCE]), 0)
        names = ["k", "j"]
        names.insert(ranked, "r")
        if family.loops:
            self.variables["r"] = self._rank(family.loops[ranked])
        for name, loop in zip(names, family.loops, strict=False):
            if name != "r":
                self.variables[name] = self._number(name, loop)
        self.loops = [self.variables[name] for name in reversed(names) if name in self.variables]

    def line(self) -> tuple[str, str]:
        """(expression of the round, the row)."""
        i = self.f.row
        source = Buffer(int(self.rows.source_buffer[i])).name.lower()
        target = Buffer(int(self.rows.target_buffer[i])).name.lower()
        chunk, to = self._field(SOURCE_CHUNK), self._field(TARGET_CHUNK)
        arrow = "+>" if self.rows.reduce[i] else "->"
        text = f"{self._field(SOURCE)} {source}[{self._span(chunk, int(self.rows.count[i]))}] {arrow}"
        text += f" {self._field(TARGET)}"
        if (target, to) != (source, chunk):
            text += f" {target}[{to}]"
        return self._field(ROUND), text + self._loops()

    def _loops(self) -> str:
        shown = list(self.loops)
        said = bool(self.f.folds) or (bool(shown) and any(shown[-1].factors))
        if said and shown[-1].range() == f"r=0..{self.ranks - 1}":
            shown.pop()
        return f" for {', '.join(v.range() for v in shown)}" if shown else ""

    def _rank(self, loop: Loop) -> _Variable:
        """A loop whose variable is a rank, where one walks through the ranks without wrapping; else a plain count."""
        for field in (SOURCE, TARGET):
            step, first = loop.by[field], self.f.first[field]
            if step and all(b % step == 0 for b in loop.by) and 0 <= first + (loop.times - 1) * step < self.ranks:
                return _Variable("r", loop, first, step)
        return _Variable("r", loop, 0, 1)

    def _number(self, name: str, loop: Loop) -> _Variable:
        """A loop whose variable is the round, or how far the source, the target or a chunk has moved."""
        for field in (ROUND, SOURCE, TARGET, SOURCE_CHUNK, TARGET_CHUNK):
            step = abs(loop.by[field])
            if step and all(b % step == 0 for b in loop.by):
                origin = self._constant(field) * (1 if loop.by[field] > 0 else -1)
                modulus = self.f.moduli[field]
                return _Variable(name, loop, origin % modulus if modulus else origin, step)
        return _Variable(name, loop, 0, 1)

    def _constant(self, field: int) -> int:
        """The field where all variables are 0."""
        return self.f.first[field] - sum(v.factors[field] * v.origin for v in self.variables.values())

    def _field(self, field: int) -> str:
        for at, fold in self.f.folds:
            if at == field:
                return _fold(fold)
        factors = {v.name: v.factors[field] for v in self.variables.values() if v.factors[field]}
        if not factors:
            return str(self.f.first[field])
        text = ""
        for name, factor in sorted(factors.items(), reverse=True):  # r before k before j
            sign = "-" if factor < 0 else "+" if text else ""
            text += f"{sign}{abs(factor) if abs(factor) != 1 else ''}{name}"
        constant = signed(self._constant(field), self.f.moduli[field])
        return text + (f"{constant:+d}" if constant else "")

    def _span(self, chunk: str, count: int) -> str:
        if count == 1:
            return chunk
        return f"{chunk}:{int(chunk) + count}" if chunk.lstrip("-").isdigit() else f"{chunk}:+{count}"


def _fold(fold: Fold) -> str:
    inner = f"r^{fold.flip}" if fold.flip else "r"
    factor = "" if fold.factor == 1 else str(fold.factor)
    return f"{factor}{inner}" if fold.multiple == 1 else f"{factor}down({inner},{fold.multiple})"
