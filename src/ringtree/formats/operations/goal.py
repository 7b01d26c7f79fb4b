"""GOAL, the schedules of LogGOPSim and ATLAHS: sends, receives and computations of each rank, by label, and what each
requires.

    num_ranks 2
    rank 0 {
    l1: send 1024b to 1 tag 7
    l2: calc 100 cpu 1
    l2 requires l1
    }

A statement ends with its line (or a semicolon). `calc` is in nanoseconds. `a irequires b`: a may start when b has
started. `nic` is read and has no effect: a rank enters the network by its links. The grammar is txt2bin's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from ringtree.files.file_bytes import content
from ringtree.files.replacing import replacing
from ringtree.formats.imported import FormatError
from ringtree.formats.operations.limits import MOST_BYTES, MOST_RANKS, check_size
from ringtree.ir.operations import ANY, GraphBuilder, OperationGraph, OperationKind

EXPECTED = "a GOAL schedule"
LONGEST_LINE = 1 << 12
"""Bytes of a line: no statement has more than a hundred."""
MOST_NUMBER = 2**53
KINDS = {"send": (OperationKind.SEND, "to"), "recv": (OperationKind.RECEIVE, "from")}
"""The operations of messages, and the word before their peer."""
_WORD = r"[A-Za-z][A-Za-z0-9_]*"
_OPERATION = re.compile(
    rf"(?:({_WORD})\s*:\s*)?(?:(send|recv)\s+(\d+)\s*b\s+(to|from)\s+(-?\d{{1,20}})|calc\s+(\d+))"
    r"((?:\s+(?:tag|cpu|nic)\s+-?\d{1,20})*)"
)
_DEPENDENCE = re.compile(rf"({_WORD})\s+(i?requires)\s+({_WORD})")
_RANKS, _RANK = re.compile(r"num_ranks\s+(\d+)"), re.compile(r"rank\s+(\d+)\s*\{?")
_CUTS = re.compile(r";|(?<=\{)|(?=\})|(?<=\})")


def begins(start: bytes) -> bool:
    """Whether a file that starts so is GOAL."""
    text, _ = _bare(start.decode("latin-1"), False)
    only_comments = start.lstrip()[:1] == b"/" and text.strip() in ("", "/")  # the last one may be cut
    return only_comments or text.lstrip().startswith("num_ranks")


def read(path: Path) -> OperationGraph:
    """The file's graph. FormatError, in one line: if it is none, or larger than `limits` allows."""
    reader = _Reader(path)
    try:
        for number, statement in _statements(path):
            reader.line = number
            reader.read(statement)
    except UnicodeDecodeError as e:
        raise FormatError(f"{path}: not text: {e.reason}; expected {EXPECTED}") from None
    except ValueError as error:
        raise error if isinstance(error, FormatError) else FormatError(str(error)) from None
    return reader.graph()


def _statements(path: Path) -> Iterator[tuple[int, str]]:
    """The statements, with the number of their line."""
    inside = False  # a comment of several lines
    for number, text in enumerate(_lines(path), 1):
        line, inside = _bare(text, inside) if inside or "/" in text else (text, False)
        for piece in _CUTS.split(line) if _CUTS.search(line) else (line,):
            if statement := piece.strip():
                yield number, statement


def _bare(text: str, inside: bool) -> tuple[str, bool]:
    """The text without its comments, and whether one goes on after it. `inside`: whether it begins in one."""
    kept, at = list[str](), 0
    while at < len(text):
        if inside:
            end = text.find("*/", at)
            inside, at = end < 0, len(text) if end < 0 else end + 2
            continue
        slash = text.find("/", at)
        mark = text[slash : slash + 2] if slash >= 0 else ""
        stop = len(text) if slash < 0 else slash if mark in ("//", "/*") else slash + 1
        kept.append(text[at:stop])
        if mark == "//":
            end = text.find("\n", slash)
            at = len(text) if end < 0 else end
        else:
            inside = mark == "/*"
            at = slash + 2 if inside else stop
    return " ".join(kept), inside


def _lines(path: Path) -> Iterator[str]:
    with content(path, EXPECTED, MOST_BYTES) as file:
        rest = b""
        while piece := file.read():
            *lines, rest = (rest + piece).split(b"\n")
            if max(map(len, (*lines, rest))) > LONGEST_LINE:
                raise FormatError(f"{path}: a line of more than {LONGEST_LINE} bytes; expected {EXPECTED}")
            yield from (line.decode() for line in lines)
        yield rest.decode()


class _Reader:
    """Reads statement by statement. `rank`: that of the block under way, -1 outside."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 0
        self.builder = GraphBuilder()
        self.ranks, self.rank = 0, -1
        self.opened = True  # whether the block's brace has been read
        self.seen: set[int] = set()
        self.labels: dict[str, int] = {}
        self.pending: list[tuple[int, str, bool, str]] = []

    def read(self, statement: str) -> None:
        if self.rank < 0:
            self._outside(statement)
        elif not self.opened:
            if statement != "{":
                raise self._expected("'{'", statement)
            self.opened = True
        elif statement == "}":
            self._close()
        elif found := _OPERATION.fullmatch(statement):
            self._operation(statement, *found.groups())
        elif found := _DEPENDENCE.fullmatch(statement):
            after, how, before = found.groups()
            self.pending.append((self.line, after, how == "irequires", before))
            check_size(self.path, len(self.builder), self.builder.dependencies + len(self.pending))
        else:
            expected = "send, recv, calc, requires, irequires or '}', such as `l1: send 8b to 1 tag 0`"
            raise self._expected(expected, statement)

    def graph(self) -> OperationGraph:
        if self.rank >= 0:
            raise FormatError(f"{self.path}: rank {self.rank} has no end; expected '}}'")
        if not self.ranks:
            raise FormatError(f"{self.path}: no num_ranks; expected {EXPECTED}")
        return self.builder.build(self.path.name, self.ranks)

    def _expected(self, expected: str, found: str) -> FormatError:
        return FormatError(f"{self.path}: line {self.line}: {found[:40]!r}; expected {expected}")

    def _outside(self, statement: str) -> None:
        if found := _RANKS.fullmatch(statement):
            if self.ranks:
                raise self._expected("num_ranks once", statement)
            self.ranks = self._number(found[1])
            if not 1 <= self.ranks <= MOST_RANKS:
                raise self._expected(f"1 to {MOST_RANKS} ranks", statement)
            return
        found = _RANK.fullmatch(statement)
        if found is None:
            raise self._expected("num_ranks N or rank R {", statement)
        if not self.ranks:
            raise self._expected("num_ranks before the first rank", statement)
        self.rank, self.opened = self._number(found[1]), statement.endswith("{")
        if self.rank >= self.ranks:
            raise self._expected(f"a rank of 0..{self.ranks - 1}", statement)
        if self.rank in self.seen:
            raise self._expected("each rank once", statement)
        self.seen.add(self.rank)

    def _operation(
        self, statement: str, label: str, word: str | None, nbytes: str, way: str, peer: str, time_ns: str, rest: str
    ) -> None:
        tag, cpu = self._places(statement, rest) if rest else (None, 0)
        if word is None:
            if tag is not None:
                raise self._expected("no tag of a calc", statement)
            lasts_s = self._number(time_ns) * 1e-9
            made = self.builder.add(OperationKind.COMPUTE, self.rank, processor=cpu, compute_s=lasts_s)
        else:
            kind, its_way = KINDS[word]
            if way != its_way:
                raise self._expected(f"{word} … {its_way} a rank", statement)
            other = int(peer)
            if not (0 <= other < self.ranks or (other == ANY and kind is OperationKind.RECEIVE)):
                raise self._expected(f"a rank of 0..{self.ranks - 1}, or from -1: any", statement)
            if tag == ANY and kind is OperationKind.SEND:
                raise self._expected("a tag of 0 or more", statement)
            made = self.builder.add(kind, self.rank, self._number(nbytes), other, tag or 0, cpu)
        check_size(self.path, made + 1, self.builder.dependencies)
        if label:
            if label in self.labels:
                raise self._expected("labels that differ in a rank", label)
            self.labels[label] = made

    def _places(self, statement: str, rest: str) -> tuple[int | None, int]:
        """The tag, None without one, and the CPU of an operation."""
        words = rest.split()
        given = {word: int(value) for word, value in zip(words[::2], words[1::2], strict=True)}
        if len(given) < len(words) // 2:
            raise self._expected("tag, cpu and nic once each", statement)
        if not all(
            (value >= 0 or (word, value) == ("tag", ANY)) and value < MOST_NUMBER for word, value in given.items()
        ):
            raise self._expected("numbers of 0 or more, or tag -1: any", statement)
        return given.get("tag"), given.get("cpu", 0)

    def _number(self, digits: str) -> int:
        if len(digits) > 16 or int(digits) >= MOST_NUMBER:
            raise self._expected(f"a number below {MOST_NUMBER}", digits)
        return int(digits)

    def _close(self) -> None:
        for line, after, at_start, before in self.pending:
            for label in (after, before):
                if label not in self.labels:
                    self.line = line
                    raise self._expected(f"a label of rank {self.rank}", label)
            self.builder.depend(self.labels[after], self.labels[before], at_start)
        self.labels.clear()
        self.pending.clear()
        self.rank = -1


def write(path: Path, graph: OperationGraph) -> None:
    """Writes the graph as GOAL, computations rounded to whole nanoseconds. OSError: if the file cannot be
    written."""
    w = graph
    by_rank = np.argsort(w.rank, kind="stable")
    label = np.empty(len(w), np.int64)
    edges = np.searchsorted(w.rank[by_rank], np.arange(w.ranks + 1)).tolist()
    for first, stop in pairwise(edges):
        label[by_rank[first:stop]] = np.arange(1, stop - first + 1)
    by_after = np.lexsort((w.before, w.after))
    waits = np.searchsorted(w.after[by_after], np.arange(len(w) + 1)).tolist()
    before, at_start = w.before[by_after].tolist(), w.at_start[by_after].tolist()
    columns = [c.tolist() for c in (w.kind, w.nbytes, w.peer, w.tag, w.processor, w.compute_s)]
    with replacing(path) as file:
        file.write(f"num_ranks {w.ranks}\n".encode())
        for rank, (first, stop) in enumerate(pairwise(edges)):
            lines = [f"\nrank {rank} {{"]
            for row in by_rank[first:stop].tolist():
                name = f"l{label[row]}"
                lines.append(f"{name}: {_written(*(column[row] for column in columns))}")
                for k in range(waits[row], waits[row + 1]):
                    lines.append(f"{name} {'irequires' if at_start[k] else 'requires'} l{label[before[k]]}")
            file.write("\n".join([*lines, "}\n"]).encode())


def _written(kind: int, nbytes: int, peer: int, tag: int, processor: int, compute_s: float) -> str:
    cpu = f" cpu {processor}" if processor else ""
    if kind == OperationKind.COMPUTE:
        return f"calc {round(compute_s * 1e9)}{cpu}"
    word, way = ("send", "to") if kind == OperationKind.SEND else ("recv", "from")
    return f"{word} {nbytes}b {way} {peer} tag {tag}{cpu}"
