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
from ringtree.formats.imported import FormatError
from ringtree.formats.operations.limits import MOST_BYTES, MOST_RANKS, check_size
from ringtree.formats.replacing import replacing
from ringtree.ir.operations import GraphBuilder, Operation, OperationGraph

EXPECTED = "a GOAL schedule"
LONGEST_LINE = 1 << 12
"""Bytes of a line: no statement has more than a hundred."""
MOST_NUMBER = 2**53
KINDS = {"send": Operation.SEND, "recv": Operation.RECEIVE, "calc": Operation.COMPUTE}
_WORD = r"[A-Za-z][A-Za-z0-9_]*"
_OPERATION = re.compile(
    rf"(?:(?P<label>{_WORD})\s*:\s*)?(?:(?P<kind>send|recv)\s+(?P<nbytes>\d+)\s*b\s+(?P<way>to|from)\s+(?P<peer>-?\d+)"
    r"|calc\s+(?P<time_ns>\d+))(?P<rest>(?:\s+(?:tag|cpu|nic)\s+-?\d+)*)"
)
_DEPENDENCE = re.compile(rf"(?P<after>{_WORD})\s+(?P<how>i?requires)\s+(?P<before>{_WORD})")
_RANKS, _RANK = re.compile(r"num_ranks\s+(\d+)"), re.compile(r"rank\s+(\d+)\s*\{?")
_CUTS = re.compile(r";|(?<=\{)|(?=\})|(?<=\})")


def begins(start: bytes) -> bool:
    """Whether a file that starts so is GOAL."""
    text, _ = _bare(start.decode("latin-1"), False)
    return text.lstrip().startswith("num_ranks")


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
            self._expect(statement == "{", statement, "'{'")
            self.opened = True
        elif statement == "}":
            self._close()
        elif found := _OPERATION.fullmatch(statement):
            self._operation(found)
        elif found := _DEPENDENCE.fullmatch(statement):
            self.pending.append((self.line, found["after"], found["how"] == "irequires", found["before"]))
            check_size(self.path, len(self.builder), self.builder.dependencies + len(self.pending))
        else:
            expected = "send, recv, calc, requires, irequires or '}'"
            self._expect(False, statement, f"{expected}, such as `l1: send 8b to 1 tag 0`")

    def graph(self) -> OperationGraph:
        if self.rank >= 0:
            raise FormatError(f"{self.path}: rank {self.rank} has no end; expected '}}'")
        if not self.ranks:
            raise FormatError(f"{self.path}: no num_ranks; expected {EXPECTED}")
        return self.builder.build(self.path.name, self.ranks)

    def _refuse(self, problem: str) -> FormatError:
        return FormatError(f"{self.path}: line {self.line}: {problem}")

    def _expect(self, holds: bool, found: str, expected: str) -> None:
        if not holds:
            raise self._refuse(f"{found[:40]!r}; expected {expected}")

    def _outside(self, statement: str) -> None:
        if found := _RANKS.fullmatch(statement):
            self._expect(not self.ranks, statement, "num_ranks once")
            self.ranks = self._number(found[1])
            self._expect(1 <= self.ranks <= MOST_RANKS, statement, f"1 to {MOST_RANKS} ranks")
            return
        found = _RANK.fullmatch(statement)
        self._expect(found is not None, statement, "num_ranks N or rank R {")
        assert found is not None
        self._expect(self.ranks > 0, statement, "num_ranks before the first rank")
        self.rank, self.opened = self._number(found[1]), statement.endswith("{")
        self._expect(self.rank < self.ranks, statement, f"a rank of 0..{self.ranks - 1}")
        self._expect(self.rank not in self.seen, statement, "each rank once")
        self.seen.add(self.rank)

    def _operation(self, found: re.Match[str]) -> None:
        kind = KINDS[found["kind"] or "calc"]
        words = found["rest"].split()
        given = {word: int(value) for word, value in zip(words[::2], words[1::2], strict=True)}
        self._expect(len(given) == len(words) // 2, found[0], "tag, cpu and nic once each")
        for word, value in given.items():
            self._expect(0 <= value < MOST_NUMBER, f"{word} {value}", "a number of 0 or more: wildcards are not played")
        if kind is Operation.COMPUTE:
            self._expect("tag" not in given, found[0], "no tag of a calc")
            time_s = self._number(found["time_ns"]) * 1e-9
            made = self.builder.add(kind, self.rank, processor=given.get("cpu", 0), compute_s=time_s)
        else:
            way = "to" if kind is Operation.SEND else "from"
            self._expect(found["way"] == way, found[0], f"{found['kind']} … {way} a rank")
            peer = int(found["peer"])
            self._expect(0 <= peer < self.ranks, found[0], f"a rank of 0..{self.ranks - 1}: wildcards are not played")
            nbytes = self._number(found["nbytes"])
            made = self.builder.add(kind, self.rank, nbytes, peer, given.get("tag", 0), given.get("cpu", 0))
        check_size(self.path, len(self.builder), self.builder.dependencies)
        if label := found["label"]:
            self._expect(label not in self.labels, label, "labels that differ in a rank")
            self.labels[label] = made

    def _number(self, digits: str) -> int:
        self._expect(len(digits) <= 16 and int(digits) < MOST_NUMBER, digits, f"a number below {MOST_NUMBER}")
        return int(digits)

    def _close(self) -> None:
        for line, after, at_start, before in self.pending:
            for label in (after, before):
                if label not in self.labels:
                    self.line = line
                    raise self._refuse(f"rank {self.rank} has no label {label[:40]!r}; expected one of its own")
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
    if kind == Operation.COMPUTE:
        return f"calc {round(compute_s * 1e9)}{cpu}"
    word, way = ("send", "to") if kind == Operation.SEND else ("recv", "from")
    return f"{word} {nbytes}b {way} {peer} tag {tag}{cpu}"
