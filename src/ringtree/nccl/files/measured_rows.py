"""The rows of nccl-tests' tables: the quickest of each size, by the program that measured them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ringtree.nccl.files.row_numbers import measured_side, named_lines, whole, wrong_elements

MOST_ROWS = 100_000
MOST_TABLE_LINES = 200_000
MOST_ROOT = 1 << 20
MOST_NAMED = 8
"""Values that a note names."""
TYPE_BYTES = {
    "int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2, "float": 4, "double": 8,
    "bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "char": 1, "int": 4, "byte": 1,
}  # fmt: skip
"""Bytes of an element, by the names of types in the tables, also those of `ringtree simulate`."""
REPEATED_WITHIN = 1.5
"""The factor between times of one size that has no note."""
BLOCKS = 1.5
"""The vector is one of blocks, one a rank, where it has more than so many times the row's count of elements."""


@dataclass(frozen=True, slots=True)
class NcclTestsRow:
    """A size. `nbytes` as nccl-tests counts it: of the whole vector. Times out of place and in place, where measured;
    `algbw`, `busbw` in GB/s as printed, of the quicker. `wrong`: elements of both, of all lines of this size, the first
    of which with any is `wrong_line` (0: none)."""

    nbytes: int
    count: int
    type: str
    redop: str
    root: int
    times_s: tuple[float, ...]
    algbw: float
    busbw: float
    wrong: int
    line: int
    wrong_line: int = 0

    @property
    def time_s(self) -> float:
        """The quicker of the two."""
        return min(self.times_s)


@dataclass(slots=True)
class MeasuredRows:
    """The rows of one program, by size; `slowest`: of sizes with several. `other_line`: the first that cannot be of the
    same collective as the row before it (0: none has come). `differ`: types, operations and roots of rows of one size,
    where they are several. `timeless`: line and bytes of rows whose times are all 0; `half_timeless`: of those with
    another time."""

    path: Path
    quickest: dict[int, NcclTestsRow] = field(default_factory=dict)
    slowest: dict[int, NcclTestsRow] = field(default_factory=dict)
    taken: int = 0
    last: NcclTestsRow | None = None
    other_line: int = 0
    differ: dict[str, set[str]] = field(default_factory=dict)
    timeless: list[tuple[int, int]] = field(default_factory=list)
    half_timeless: list[tuple[int, int]] = field(default_factory=list)

    def add(self, number: int, what: tuple[Any, ...], figures: Sequence[Sequence[str]]) -> NcclTestsRow | None:
        """Checks, keeps and returns the row of line `number`; skips rows of no bytes or without a time (None). `what`:
        size, count, type, redop and root; `figures`: of each side. ValueError, naming the line."""
        self.taken += 1
        if self.taken > MOST_TABLE_LINES:
            raise ValueError(
                f"{self.path}, line {number}: more than {MOST_TABLE_LINES:,} lines of figures; expected one test's"
            )
        nbytes = whole(self.path, number, "size", what[0], 0, 1 << 60)
        sides = [m for f in figures if (m := measured_side(self.path, number, f)) is not None]
        if not nbytes or not sides:
            return None
        count = whole(self.path, number, "count", what[1], 0, 1 << 60)
        measured = [m for m in sides if m[0]]
        if count and len(measured) < len(sides):
            (self.half_timeless if measured else self.timeless).append((number, nbytes))
        if not measured:
            return None
        root = whole(self.path, number, "root", what[4], -1, MOST_ROOT)
        _, algbw, busbw, _ = min(measured)
        wrong = sum(wrong_elements(self.path, number, m[3]) for m in measured)
        times_s = tuple(m[0] for m in measured)
        kinds = str(what[2]), str(what[3])
        row = NcclTestsRow(nbytes, count, *kinds, root, times_s, algbw, busbw, wrong, number, number * bool(wrong))
        self._keep(row)
        return row

    def _keep(self, row: NcclTestsRow) -> None:
        if self.last is not None and not self.other_line and _other_collective(self.last, row):
            self.other_line = row.line
        self.last = row
        before = self.quickest.get(row.nbytes)
        if before is None and len(self.quickest) >= MOST_ROWS:
            raise ValueError(
                f"{self.path}, line {row.line}: more than {MOST_ROWS:,} sizes; expected the table of one test"
            )
        if before is not None:
            self._compare(before, row)
            slowest = self.slowest.setdefault(row.nbytes, before)
            self.slowest[row.nbytes] = max(slowest, row, key=lambda timed: timed.time_s)
            wrong, wrong_line = before.wrong + row.wrong, before.wrong_line or row.wrong_line
            row = row if row.time_s < before.time_s else before
            if wrong != row.wrong or wrong_line != row.wrong_line:
                row = replace(row, wrong=wrong, wrong_line=wrong_line)
        self.quickest[row.nbytes] = row

    def _compare(self, one: NcclTestsRow, other: NcclTestsRow) -> None:
        for what in ("type", "redop", "root"):
            values = str(getattr(one, what)), str(getattr(other, what))
            if values[0] != values[1]:
                self.differ.setdefault(what, set()).update(values)

    def notes(self) -> Iterator[str]:
        """Names rows without a time, and what rows of one size differ in."""
        if self.timeless:
            yield f"rows with a time of 0, left out: {named_lines(self.timeless)}"
        if self.half_timeless:
            yield f"rows with one of their times 0, of which the other counts: {named_lines(self.half_timeless)}"
        for what, values in self.differ.items():
            named = sorted(values)[:MOST_NAMED]
            more = f" and {len(values) - MOST_NAMED:,} more" if len(values) > MOST_NAMED else ""
            yield f"rows of one size differ in {what} ({', '.join(named)}{more}): the quickest counts"

    def spread(self) -> str:
        """A note on the size whose rows' times differ most, where they do by much; "" where none does."""
        apart = {n: slow.time_s / self.quickest[n].time_s for n, slow in self.slowest.items()}
        worst = max(apart, key=lambda n: apart[n], default=0)
        if not apart or apart[worst] < REPEATED_WITHIN:
            return ""
        lines = " and ".join(str(line) for line in sorted((self.quickest[worst].line, self.slowest[worst].line)))
        differ = f"{apart[worst]:.3g} times ({worst} B, lines {lines})"
        return f"times of one size differ by up to {differ}: the quickest counts"

    def by_size(self) -> tuple[NcclTestsRow, ...]:
        """The quickest row of each size, the smallest first."""
        return tuple(self.quickest[nbytes] for nbytes in sorted(self.quickest))


def per_rank(row: NcclTestsRow) -> float:
    """Elements of the whole vector over the row's count: 1, or the number of ranks that share the vector; 0 where the
    row does not have it."""
    each = row.count * TYPE_BYTES.get(row.type, 0)
    return row.nbytes / each if each else 0.0


def _other_collective(one: NcclTestsRow, other: NcclTestsRow) -> bool:
    """Whether two rows cannot be of one collective: one reduces, has a root, or is of a vector in blocks, and the other
    is not."""
    if (one.redop == "none") != (other.redop == "none") or (one.root < 0) != (other.root < 0):
        return True
    shares = per_rank(one), per_rank(other)
    return all(shares) and (shares[0] > BLOCKS) != (shares[1] > BLOCKS)
