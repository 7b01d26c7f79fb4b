"""Rows of nccl-tests' text tables, whose parts other output may separate.

nccl-tests prints size to root, then each side's figures once they are measured. What NCCL prints in between, to the
same stream, ends the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from ringtree.nccl.files.measured_rows import TYPE_BYTES
from ringtree.nccl.files.row_numbers import NUMBER, named_lines

ALGBW_WITHIN, ALGBW_ROUNDED = 0.02, 0.01
"""Figures on a line of their own are a row's whose bytes over time are their algbw so nearly, in GB/s: a share and
half a printed digit."""
MOST_TAGS = 8
"""Words before figures on a line of their own."""
_TIMES = ("time", "cputime")
_REDOPS = frozenset({"sum", "prod", "min", "max", "avg", "mulsum", "all", "none"})
_ROW = re.compile(rf"(?<![\w.])(\d{{1,18}})[ \t]{{1,40}}(\d{{1,18}})[ \t]{{1,40}}({'|'.join(TYPE_BYTES)})\b")
_TWO_NUMBERS = re.compile(r"\d[ \t]{1,40}\d")
"""Part of every row that is quicker to look for than a row."""
_TWO_FIGURES = re.compile(r"\.\d{1,9}[ \t]{1,40}\d{1,9}\.|N/A[ \t]")
"""Part of every side on a line of its own."""
_ROOT = re.compile(r"-?\d{1,7}")
_HEADER = re.compile(r"#\s+size\s+count\s.*busbw")
_WRONG = re.compile(r"0(?!\.)|[1-9]\d{0,14}(?:\.\d+)?(?:e[+-]\d\d)?(?=[^\d.])")
"""The number of wrong elements before a word that follows without a blank."""
_WORD = re.compile(r"-?\w*")
_DECIMAL = re.compile(r"\d{1,9}\.\d+")
_BEGUN = re.compile(r"(?:^|[ \t:|>\]])(\d{1,18})(?:[ \t]{1,40}\d{1,18}(?:[ \t]{1,40}[a-z]\w{0,8})?)?$")
"""The end of a file that broke off before a row's type."""


class _Columns(NamedTuple):
    """A text table's columns. `root`: whether it has that column; None without a header, where sides may have three
    figures. `starts`: where the sides' figures begin, counted from the first side's; `total`: number of columns of all
    sides."""

    root: bool | None
    starts: tuple[int, ...]
    total: int


def _columns(header: Sequence[str]) -> _Columns:
    """The columns by the words of the header."""
    first = next((n for n, name in enumerate(header) if name in _TIMES), None)
    names = ["time", "algbw", "busbw", "#wrong"] * 2 if first is None else header[first:]
    starts = tuple(n for n, name in enumerate(names) if name in _TIMES)
    return _Columns("root" in header if header else None, starts, len(names))


@dataclass(slots=True)
class _Begun:
    """A row whose figures have not all come. `cut`: whether other output is in its line."""

    line: int
    what: tuple[int, int, str, str, int]
    figures: list[str] = field(default_factory=list)
    cut: bool = False


class TextRows:
    """The rows of text tables. `add`: takes each, with the line where it begins; size, count, type, redop and root; and
    the figures of its sides. `redop`, `root`: whether every row has that column."""

    def __init__(self, add: Callable[[int, tuple[Any, ...], Sequence[Sequence[str]]], None]) -> None:
        self.left_out: list[tuple[int, int]] = []  # line and bytes
        self.redop = self.root = True
        self._add = add
        self._columns = _columns([])
        self._begun: _Begun | None = None
        self._one_sided: list[tuple[int, int, bool]] = []  # line, bytes, whether it was cut
        self._two_sided = False

    def header(self, text: str) -> bool:
        """Takes up the columns if the line names them."""
        if not _HEADER.search(text):
            return False
        self.end()
        self._columns = _columns(text[text.index("size") :].split())
        return True

    def line(self, text: str, number: int) -> bool:
        """Takes up the rows in a line, or the figures of the row before it; returns whether there are any."""
        found = list(_ROW.finditer(text)) if _TWO_NUMBERS.search(text) else []
        figures = self._continuation(text[: found[0].start()] if found else text)
        if figures:
            self._more(figures)
        for n, row in enumerate(found):
            self.end()
            end = found[n + 1].start() if n + 1 < len(found) else len(text)
            self._begin(row, text[row.end() : end].split(), number)
        return bool(found or figures)

    def end(self, last: str = "", number: int = 0) -> None:
        """Nothing more of the row comes. `last`: the last line of the file where it has no end, and its `number`."""
        begun, self._begun = self._begun, None
        if last and not _ROW.search(last) and (found := _BEGUN.search(last)):
            self.left_out.append((number, int(found[1])))
        if begun is None:
            return
        columns, have = self._columns, len(begun.figures)
        starts = columns.starts
        if len(starts) == 2 and have <= columns.total - starts[1]:
            starts = (0,)  # in place alone, as for a replayed trace
        ends = (*columns.starts[1:], columns.total)
        whole = [(n, min(n + 4, end)) for n, end in zip(starts, ends, strict=False) if end >= n + 3]
        sides = [begun.figures[n:end] for n, end in whole if have >= (n + 3 if columns.root is None else end)]
        if not sides:
            self.left_out.append((begun.line, begun.what[0]))
            return
        if len(sides) < len(columns.starts):
            cut = begun.cut or have not in columns.starts
            self._one_sided.append((begun.line, begun.what[0], cut))
        else:
            self._two_sided = True
        self._add(begun.line, begun.what, sides)

    def notes(self) -> Iterator[str]:
        """Names the rows that are left out, whole or one of their times."""
        if self.left_out:
            yield f"rows that are broken off, left out: {named_lines(self.left_out)}"
        if halves := [(line, nbytes) for line, nbytes, cut in self._one_sided if cut or self._two_sided]:
            yield f"rows with one of their times broken off, of which the other counts: {named_lines(halves)}"

    def _begin(self, row: re.Match[str], words: list[str], number: int) -> None:
        redop, root = "none", -1
        if words and words[0] in _REDOPS:
            redop = words.pop(0)
        else:
            self.redop = False
        has_root = self._columns.root
        if has_root is None:
            numbers = sum(1 for _ in takewhile(NUMBER.fullmatch, words[: self._columns.total + 1]))
            has_root = len(words) in (5, 9) or numbers in (1, 5, 9)
        if has_root and words and _ROOT.fullmatch(words[0]):
            root = int(words.pop(0))
        else:
            self.root = False
        self._begun = _Begun(number, (int(row[1]), int(row[2]), row[3], redop, root))
        self._more(words)

    def _more(self, words: Sequence[str]) -> None:
        """Figures of the row that has begun, and what follows them in their line."""
        begun, columns = self._begun, self._columns
        assert begun is not None
        for word in words[: columns.total - len(begun.figures)]:
            if NUMBER.fullmatch(word):
                begun.figures.append(word)
                continue
            place = len(begun.figures) - max(n for n in columns.starts if n <= len(begun.figures))
            joined = _WRONG.match(word) if place >= 3 else None
            if place == 3 and joined is None and _WORD.fullmatch(word):
                begun.figures.append(word)  # it is refused where it is read
                continue
            if joined is not None:
                begun.figures.append(joined[0])
            begun.cut = True
            break
        if len(begun.figures) not in (0, *columns.starts):
            self.end()

    def _continuation(self, text: str) -> list[str]:
        """The figures of a side of the row that has begun, with what follows them; none where the line has none."""
        if self._begun is None or not _TWO_FIGURES.search(text):
            return []
        nbytes, words = self._begun.what[0], text.split()
        for n in range(min(len(words) - 2, MOST_TAGS)):
            time_us, algbw, busbw = words[n : n + 3]
            if time_us == algbw == busbw == "N/A":
                return words[n:]
            if not (_DECIMAL.fullmatch(algbw) and _DECIMAL.fullmatch(busbw) and NUMBER.fullmatch(time_us)):
                continue
            off_GBps = abs(nbytes / 1e3 - float(algbw) * float(time_us)) if time_us[0].isdigit() else float("inf")
            if off_GBps <= (ALGBW_WITHIN * float(algbw) + ALGBW_ROUNDED) * float(time_us):
                return words[n:]
        return []
