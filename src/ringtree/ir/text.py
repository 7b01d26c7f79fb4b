"""Schedules as text: short, exact, parseable. A ring all_reduce over any number of ranks is three lines.

    schedule ring all_reduce: 8 ranks, 8 chunks
    7 times, chunk -1: r data[r-1] +> r+1
    7 times, chunk -1: r data[r] -> r+1

`->` stores, `+>` reduces. `r` runs over all ranks unless a `for` has another range; an expression with a variable is
modulo the number of ranks, or the length of its buffer. The grammar, a line at a time:

    schedule NAME COLLECTIVE: N ranks, N chunks[, root N][, N scratch][, N switches]
    HEAD: ROW; ROW; …                  a block of one round
    HEAD: nothing                      a block of no rows
    HEAD:                              a block of rounds, which follow, indented:
      round EXPR: ROW; ROW; …
             ROW; …                    (more of the same round)

    HEAD   once | N times, then the fields that move each time: [, WHAT ±N]…
    WHAT   rank | source | target | chunk | source chunk | target chunk    (rank, chunk: both columns)
    ROW    MOVE [for RANGE, …] | {MOVE; MOVE; …} for RANGE, …              one each time, or several, one after another
    MOVE   EXPR BUFFER[SPAN] -> EXPR [BUFFER[EXPR]]                        the target's chunk where it differs
    SPAN   EXPR | N:N | EXPR:+N        one chunk, from:to, from:+count
    RANGE  VAR=N..N | VAR=N,N[..N]     the second number gives the step; ranges nest, the first is the outermost
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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.families import (
    ROUND,
    SOURCE,
    SOURCE_CHUNK,
    TARGET,
    TARGET_CHUNK,
    Fold,
    RowFamily,
    find,
    signed,
)
from ringtree.ir.parse import BARE_NAME, ScheduleTextError, parse_schedule
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers

__all__ = ["ScheduleTextError", "format_head", "format_schedule", "parse_schedule"]

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
                raise ValueError(f"{s.name}: uses buffer {odd}; expected 0..{len(Buffer) - 1}")
    lengths = s.lengths
    lines = [f"schedule {name} {s.collective}: {', '.join(facts)}"]
    for block in s.blocks:
        lines += _block(block, s.ranks, lengths)
    return "\n".join(lines)


def format_head(block: Block) -> str:
    """The block's repetitions, and the fields that move each time: `7 times, chunk -1`."""
    return ", ".join(["once" if block.times == 1 else f"{block.times} times", *_moves(block.shift)])


def _block(block: Block, ranks: int, lengths: NDArray[np.int64]) -> Iterator[str]:
    head = format_head(block)
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


@dataclass(frozen=True, slots=True)
class _Variable:
    """The variable of the loop at `level`: origin, origin + step, …"""

    name: str
    level: int
    times: int
    origin: int
    step: int

    def factor(self, family: RowFamily, field: int) -> int:
        """The variable's factor in that field of the family."""
        return family.loops[self.level].by[field] // self.step

    def range(self) -> str:
        last = self.origin + (self.times - 1) * self.step
        if self.step == 1:
            return f"{self.name}={self.origin}..{last}"
        return f"{self.name}={self.origin},{self.origin + self.step}" + (f"..{last}" if self.times > 2 else "")


class _Writer:
    """Writes one family. The variable of a loop is the rank or the number that makes its expressions shortest."""

    def __init__(self, family: RowFamily, rows: Transfers, ranks: int) -> None:
        self.family, self.rows, self.ranks = family, rows, ranks
        self.members = family.members or (family,)
        self.variables: list[_Variable] = []
        ranked = next((i for i, loop in enumerate(self.members[0].loops) if loop.by[SOURCE]), 0)
        names = ["k", "j"]
        names.insert(ranked, "r")
        levels = sorted(range(len(family.loops)), key=lambda level: level != ranked)  # the rank first
        for level in levels:
            self.variables.append(self._variable(names[level], level))
        self.variables.sort(key=lambda v: v.level)

    def line(self) -> tuple[str, str]:
        """(expression of the round, the row or rows)."""
        texts = [self._row(m) for m in self.members]
        text = f"{{{'; '.join(texts)}}}" if self.family.members else texts[0]
        return self._field(self.members[0], ROUND), text + self._loops()

    def _row(self, f: RowFamily) -> str:
        source = Buffer(int(self.rows.source_buffer[f.row])).name.lower()
        target = Buffer(int(self.rows.target_buffer[f.row])).name.lower()
        chunk, to = self._field(f, SOURCE_CHUNK), self._field(f, TARGET_CHUNK)
        arrow = "+>" if self.rows.reduce[f.row] else "->"
        text = f"{self._field(f, SOURCE)} {source}[{self._span(chunk, int(self.rows.count[f.row]))}] {arrow}"
        text += f" {self._field(f, TARGET)}"
        return text if (target, to) == (source, chunk) else f"{text} {target}[{to}]"

    def _loops(self) -> str:
        shown = self.variables[::-1]
        if shown and shown[-1].name == "r" and shown[-1].range() == f"r=0..{self.ranks - 1}":
            if self.family.folds or any(any(m.loops[0].by) for m in self.members):
                shown.pop()
        return f" for {', '.join(v.range() for v in shown)}" if shown else ""

    def _variable(self, name: str, level: int) -> _Variable:
        """The variable of a loop: for `r` a rank, where one walks through the ranks without wrapping; for others the
        round, or the distance that the source, the target or a chunk has moved; else a plain count."""
        times = self.family.loops[level].times
        moves = [b for m in self.members for b in m.loops[level].by]
        for member in self.members:
            for field in (SOURCE, TARGET) if name == "r" else (ROUND, SOURCE, TARGET, SOURCE_CHUNK, TARGET_CHUNK):
                by, first, modulus = member.loops[level].by[field], member.first[field], member.moduli[field]
                step = by if name == "r" else abs(by)
                if not step or any(b % step for b in moves):
                    continue
                if name != "r":
                    origin = self._constant(member, field) * (1 if by > 0 else -1)
                    return _Variable(name, level, times, origin % modulus if modulus else origin, step)
                if 0 <= first + (times - 1) * step < self.ranks:
                    return _Variable(name, level, times, first, step)
        return _Variable(name, level, times, 0, 1)

    def _constant(self, f: RowFamily, field: int) -> int:
        """The field where all variables are 0."""
        return f.first[field] - sum(v.factor(f, field) * v.origin for v in self.variables)

    def _field(self, f: RowFamily, field: int) -> str:
        for at, fold in f.folds:
            if at == field:
                return _fold(fold)
        factors = {v.name: v.factor(f, field) for v in self.variables if v.factor(f, field)}
        if not factors:
            return str(f.first[field])
        text = ""
        for name, factor in sorted(factors.items(), reverse=True):  # r before k before j
            sign = "-" if factor < 0 else "+" if text else ""
            text += f"{sign}{abs(factor) if abs(factor) != 1 else ''}{name}"
        constant = signed(self._constant(f, field), f.moduli[field])
        return text + (f"{constant:+d}" if constant else "")

    def _span(self, chunk: str, count: int) -> str:
        if count == 1:
            return chunk
        return f"{chunk}:{int(chunk) + count}" if chunk.lstrip("-").isdigit() else f"{chunk}:+{count}"


def _fold(fold: Fold) -> str:
    inner = f"r^{fold.flip}" if fold.flip else "r"
    factor = "" if fold.factor == 1 else str(fold.factor)
    return f"{factor}{inner}" if fold.multiple == 1 else f"{factor}down({inner},{fold.multiple})"
