"""Reads schedules in the form that ringtree.ir.text writes; its docstring has the grammar. Families are expanded in
numpy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers

BARE_NAME = r"\w[\w./+-]*"
MOST = {"ranks": 2**20, "switches": 2**20, "chunks": 2**24, "scratch": 2**24}
"""Larger numbers are taken for a mistake: a short line must not cost much memory."""

MOST_ROWS = 2**21
"""Rows beyond which a text is taken for a mistake: a short line must not cost much memory."""

_HEADER = re.compile(rf'schedule\s+({BARE_NAME}|"(?:[^"\\]|\\.)*")\s+(\w+)\s*:\s*(.*)')
_TOKEN = re.compile(r"\d+|[A-Za-z]+|->|\+>|\.\.|\S")
_VARIABLES = ("r", "k", "j")
_LIMIT = 2**31
_Values = NDArray[np.int64]
_BUFFERS = {b.name.lower(): b for b in Buffer}
_SHIFTS = {
    ("rank",): ("source", "target"),
    ("source",): ("source",),
    ("target",): ("target",),
    ("chunk",): ("source_chunk", "target_chunk"),
    ("source", "chunk"): ("source_chunk",),
    ("target", "chunk"): ("target_chunk",),
}


class ScheduleTextError(ValueError):
    """Text that is not a schedule. The message has the line, the expected text and the text found."""


def parse_schedule(text: str) -> Schedule:
    """Returns the schedule of the text. ScheduleTextError: if the text is none; spec.check checks legality."""
    lines = [
        (number, line.rstrip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise ScheduleTextError("line 1: expected 'schedule NAME COLLECTIVE: N ranks, N chunks', got nothing")
    schedule = _header(*lines[0])
    lengths = schedule.lengths
    blocks: list[_BlockText] = []
    for number, line in lines[1:]:
        reader = _Line(number, line, schedule.ranks, lengths)
        if not line[0].isspace():
            blocks.append(reader.head(blocks[-1].end if blocks else 0))
        elif not blocks or not blocks[-1].open:
            reader.refuse("a block: 'once: …' or 'N times, …: …'; rounds are indented below a head that ends in ':'")
        else:
            reader.round(blocks[-1])
    return Schedule(
        schedule.name,
        schedule.collective,
        schedule.ranks,
        schedule.chunks,
        tuple(b.finish() for b in blocks),
        schedule.root,
        schedule.scratch,
        schedule.switches,
    )


def _header(number: int, line: str) -> Schedule:
    def refuse(expected: str, got: str) -> NoReturn:
        raise ScheduleTextError(f"line {number}: expected {expected}, got {got[:60]!r}")

    match = _HEADER.fullmatch(line)
    if not match:
        refuse("'schedule NAME COLLECTIVE: N ranks, N chunks'", line)
    name, collective, rest = match.groups()
    if collective not in COLLECTIVES:
        refuse(f"a collective ({', '.join(COLLECTIVES)})", collective)
    if name.startswith('"'):
        try:
            name = json.loads(name)
        except ValueError:
            refuse("a name as a JSON string", name)
    facts: dict[str, int] = {}
    for part in rest.split(","):
        match = re.fullmatch(r"\s*(?:(\d{1,9}) (ranks|chunks|scratch|switches)|(root) (\d{1,9}))\s*", part)
        if not match or (match[2] or match[3]) in facts:
            refuse("'N ranks', 'N chunks', 'root N', 'N scratch' or 'N switches', each once", part.strip())
        facts[match[2] or match[3]] = int(match[1] or match[4])
    for needed in ("ranks", "chunks"):
        if facts.get(needed, 0) < 1:
            refuse(f"'N {needed}', N at least 1", rest)
    for what, most in MOST.items():
        if facts.get(what, 0) > most:
            refuse(f"at most {most} {what}", str(facts[what]))
    root, scratch, switches = facts.get("root"), facts.get("scratch", 0), facts.get("switches", 0)
    return Schedule(name, collective, facts["ranks"], facts["chunks"], (), root, scratch, switches)


class _BlockText:
    """A block being read: its head and the rows so far. `end`: the text's rows up to here."""

    def __init__(self, number: int, times: int, shift: Shift, end: int) -> None:
        self.number, self.times, self.shift, self.end = number, times, shift, end
        self.parts: list[Transfers] = []
        self.open = False  # rounds follow
        self.label: _Expression | None = None

    def add(self, number: int, rows: Transfers) -> None:
        self.end += len(rows)
        if self.end > MOST_ROWS:
            raise ScheduleTextError(f"line {number}: expected at most {MOST_ROWS} rows in a schedule, got more")
        self.parts.append(rows)

    def finish(self) -> Block:
        if self.open and not self.parts:
            raise ScheduleTextError(f"line {self.number}: expected rounds, indented, below this head; got none")
        return Block(Transfers.concatenate(self.parts), self.times, self.shift)


@dataclass(frozen=True, slots=True)
class _Expression:
    """A function of the variables, and their names."""

    names: frozenset[str]
    value: Callable[[dict[str, _Values]], _Values | int]

    def at(self, variables: dict[str, _Values], modulus: int) -> _Values | int:
        """The values; those of an expression with a variable modulo `modulus` (0: not)."""
        value = self.value(variables)
        return value % modulus if self.names and modulus else value


@dataclass(frozen=True, slots=True)
class _Move:
    source: _Expression
    source_buffer: Buffer
    chunk: _Expression
    count: int
    reduce: bool
    target: _Expression
    target_buffer: Buffer
    to: _Expression


class _Line:
    """A line's tokens, and a method per rule of the grammar."""

    def __init__(self, number: int, line: str, ranks: int, lengths: NDArray[np.int64]) -> None:
        self.number, self.line, self.ranks, self.lengths = number, line, ranks, lengths
        self.tokens: list[str] = _TOKEN.findall(line)
        self.next = 0

    # -- reading tokens

    def refuse(self, expected: str) -> NoReturn:
        rest = " ".join(self.tokens[self.next : self.next + 5])
        raise ScheduleTextError(f"line {self.number}: expected {expected}, got {rest or 'the end of the line'!r}")

    @property
    def token(self) -> str:
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def accept(self, *tokens: str) -> bool:
        if tuple(self.tokens[self.next : self.next + len(tokens)]) == tokens:
            self.next += len(tokens)
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.refuse(repr(token))

    def number_(self) -> int:
        if not self.token.isdecimal() or len(self.token) > 10 or int(self.token) >= _LIMIT:
            self.refuse("a number below 2**31")
        self.next += 1
        return int(self.tokens[self.next - 1])

    def signed(self) -> int:
        negative = self.accept("-")
        return -self.number_() if negative else self.number_()

    # -- the grammar

    def head(self, end: int) -> _BlockText:
        if self.accept("once"):
            times = 1
        elif self.token.isdecimal():
            times = self.number_()
            self.expect("times")
        else:
            self.refuse("a block: 'once' or 'N times'")
        moves: dict[str, int] = {}
        while self.accept(","):
            fields = next((f for words, f in reversed(_SHIFTS.items()) if self.accept(*words)), ())
            if not fields or any(f in moves for f in fields):
                self.refuse(
                    "the fields that move (rank, chunk, source, target, source chunk or target chunk), each once"
                )
            sign = -1 if self.accept("-") else 1
            if sign > 0:
                self.expect("+")
            by = sign * self.number_()
            moves.update((f, by) for f in fields)
        self.expect(":")
        block = _BlockText(self.number, times, Shift(**moves), end)
        if not self.token:
            block.open = True
        elif not (self.accept("nothing") and not self.token):
            block.label = _Expression(frozenset(), lambda _: 0)
            self.rows(block)
        return block

    def round(self, block: _BlockText) -> None:
        if self.accept("round"):
            block.label = self.expression()
            self.expect(":")
        elif block.label is None:
            self.refuse("'round N:'")
        self.rows(block)

    def rows(self, block: _BlockText) -> None:
        self.row(block)
        while self.accept(";"):
            if self.token:
                self.row(block)
        if self.token:
            self.refuse("';' or the end of the line")

    def row(self, block: _BlockText) -> None:
        """One transfer or several in braces, and the loops over them."""
        braced = self.accept("{")
        moves = [self.move()]
        while braced and not self.accept("}"):
            if not self.accept(";"):
                self.refuse("';' or '}'")
            moves.append(self.move())
        label = block.label
        assert label is not None
        used = frozenset().union(label.names, *(e.names for m in moves for e in (m.source, m.target, m.chunk, m.to)))
        variables = self.loops(used)
        times = len(next(iter(variables.values()), (0,)))
        parts = [self.columns(m, label, variables, times) for m in moves]
        table = np.stack(parts, axis=1).reshape(times * len(moves), -1)  # all moves at each turn
        if np.any(np.abs(table) >= _LIMIT):
            self.refuse("numbers below 2**31; before")
        at, source, target, chunk, to, source_buffer, target_buffer, count, reduce = table.T
        block.add(
            self.number,
            Transfers.of(
                source,
                target,
                chunk,
                to=to,
                count=count,
                reduce=reduce != 0,
                round=at,
                source_buffer=source_buffer,
                target_buffer=target_buffer,
            ),
        )

    def columns(self, m: _Move, label: _Expression, variables: dict[str, _Values], times: int) -> _Values:
        """[times, 9]: one move at each turn of the loops."""
        columns = np.empty((times, 9), dtype=np.int64)
        columns[:, 0] = label.at(variables, 0)
        columns[:, 1] = m.source.at(variables, self.ranks)
        columns[:, 2] = m.target.at(variables, self.ranks)
        columns[:, 3] = m.chunk.at(variables, int(self.lengths[m.source_buffer]))
        columns[:, 4] = m.to.at(variables, int(self.lengths[m.target_buffer]))
        columns[:, 5:] = m.source_buffer, m.target_buffer, m.count, m.reduce
        return columns

    def move(self) -> _Move:
        source = self.expression()
        source_buffer = self.buffer()
        self.expect("[")
        chunk = self.expression()
        count = self.span(chunk)
        self.expect("]")
        if self.token not in ("->", "+>"):
            self.refuse("'->' (store) or '+>' (reduce)")
        reduce = self.accept("+>") or not self.accept("->")
        target, target_buffer, to = self.expression(), source_buffer, chunk
        if self.token in _BUFFERS:
            target_buffer = self.buffer()
            self.expect("[")
            to = self.expression()
            self.expect("]")
        return _Move(source, source_buffer, chunk, count, reduce, target, target_buffer, to)

    def buffer(self) -> Buffer:
        if self.token not in _BUFFERS:
            self.refuse(f"a buffer ({', '.join(_BUFFERS)})")
        self.next += 1
        return _BUFFERS[self.tokens[self.next - 1]]

    def span(self, chunk: _Expression) -> int:
        """The number of chunks from `chunk` on."""
        if not self.accept(":"):
            return 1
        if self.accept("+"):
            return self.number_()
        if chunk.names:
            self.refuse("'+N', for the first chunk has a variable")
        return self.signed() - int(chunk.at({}, 0))

    def loops(self, used: frozenset[str]) -> dict[str, _Values]:
        """The variables' values row by row. `r`, used but not given a range, is all ranks, innermost."""
        ranges: dict[str, _Values] = {}
        if self.accept("for"):
            while not ranges or self.accept(","):
                name = self.token
                if name not in _VARIABLES or name in ranges:
                    self.refuse("a variable (r, k or j), each once")
                self.next += 1
                self.expect("=")
                ranges[name] = self.range()
        if "r" in used and "r" not in ranges:
            ranges["r"] = np.arange(self.ranks, dtype=np.int64)
        if used - set(ranges):
            name = min(used - set(ranges))
            self.refuse(f"'for {name}=N..N', for {name} is used; before")
        total = 1
        for values in ranges.values():
            total *= len(values)
        if total > MOST_ROWS:
            self.refuse(f"at most {MOST_ROWS} rows in a schedule; before")
        grids = np.meshgrid(*ranges.values(), indexing="ij")
        return {name: grid.ravel() for name, grid in zip(ranges, grids, strict=True)}

    def range(self) -> _Values:
        first = self.signed()
        step = 1
        if self.accept(","):
            step = self.signed() - first
            last = first + step
            if self.accept(".."):
                last = self.signed()
        else:
            self.expect("..")
            last = self.signed()
        if step == 0 or (last - first) // step < 0:
            self.refuse("a range that counts from its first to its last; before")
        if (last - first) // step >= MOST_ROWS:
            self.refuse(f"at most {MOST_ROWS} rows in a schedule; before")
        return np.arange(first, last + (1 if step > 0 else -1), step, dtype=np.int64)

    def expression(self) -> _Expression:
        terms = [self.term(-1 if self.accept("-") else 1)]
        while self.token in ("+", "-"):
            sign = 1 if self.accept("+") else -1 if self.accept("-") else 0
            terms.append(self.term(sign))
        if len(terms) == 1:
            return terms[0]
        return _Expression(frozenset().union(*(t.names for t in terms)), lambda v: sum(t.value(v) for t in terms))

    def term(self, sign: int) -> _Expression:
        factor = sign
        if self.token.isdecimal():
            factor *= self.number_()
            if self.token not in (*_VARIABLES, "down"):
                return _Expression(frozenset(), lambda _: factor)
        if self.accept("down"):
            self.expect("(")
            name, flip = self.flipped()
            self.expect(",")
            multiple = self.number_()
            if multiple < 1:
                self.refuse("a multiple of at least 1; before")
            self.expect(")")
            return _Expression(frozenset({name}), lambda v: factor * ((v[name] ^ flip) // multiple * multiple))
        name, flip = self.flipped()
        return _Expression(frozenset({name}), lambda v: factor * (v[name] ^ flip))

    def flipped(self) -> tuple[str, int]:
        """VAR or VAR^N."""
        name = self.token
        if name not in _VARIABLES:
            self.refuse("a number or a variable (r, k or j)")
        self.next += 1
        return name, self.number_() if self.accept("^") else 0
