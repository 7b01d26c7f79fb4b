"""Reads the output of nccl-tests and rccl-tests: the table, the devices that ran it, and NCCL's lines in between.

The text of all versions (with or without root, #wrong or error, per-iteration columns, time stamps; lines may begin
with mpirun's or srun's tags), -J's JSON, and CSV with the columns of `CSV_COLUMNS`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import json_value
from ringtree.nccl.files.debug_log import Debug
from ringtree.nccl.files.row_numbers import are_numbers, measured_side, whole, wrong_elements

LARGEST_BYTES = 1 << 28
"""A file beyond this is refused unread."""
LONGEST_LINE = 1 << 14
"""A longer line is cut, and the rest is taken as the next line."""
MOST_LINES = 4_000_000
MOST_ROWS = 100_000
MOST_TABLE_LINES = 200_000
MOST_RANKS = 1 << 20
COLLECTIVES = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast", "reduce": "reduce", "alltoall": "all_to_all", "sendrecv": "send_recv",
    "gather": "gather", "scatter": "scatter",
}  # fmt: skip
"""Collectives by their names in nccl-tests."""
TYPE_BYTES = {
    "int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2, "float": 4, "double": 8,
    "bfloat16": 2, "float16": 2, "float32": 4, "float64": 8, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "char": 1, "int": 4,
}  # fmt: skip
CSV_COLUMNS = ("size_B", "count", "type", "redop", "root", "oop_time_us", "oop_algbw_GBps", "oop_busbw_GBps",
               "ip_time_us", "ip_algbw_GBps", "ip_busbw_GBps")  # fmt: skip
CSV_SIDES = {
    "out of place": ("oop_time_us", "oop_algbw_GBps", "oop_busbw_GBps", "oop_wrong"),
    "in place": ("ip_time_us", "ip_algbw_GBps", "ip_busbw_GBps", "ip_wrong"),
    "one": ("time", "algbw", "busbw", "wrong"),
}
"""The columns of a side of a CSV; one side alone has names of its own."""
_TIMES = ("time", "cputime")
_REDOPS = frozenset({"sum", "prod", "min", "max", "avg", "mulsum", "all", "none"})
_TYPES = "|".join(TYPE_BYTES)
_ROW = re.compile(rf"(?<![\w.])(\d{{1,18}})[ \t]{{1,40}}(\d{{1,18}})[ \t]{{1,40}}({_TYPES})[ \t]+(.*)")
_TWO_NUMBERS = re.compile(r"\d[ \t]{1,40}\d")
"""Part of every row that is quicker to look for than a row."""
_ROOT = re.compile(r"-?\d{1,7}")
_HEADER = re.compile(r"#\s+size\s+count\s.*busbw")
_PROGRAM = re.compile(r"\b(" + "|".join(COLLECTIVES) + r")_perf\b")
_DEVICE = re.compile(r"#\s+Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]\s*(.*)")
_CSV_FACT = re.compile(r"#\s*(collective|nranks)\s*:\s*(\w+)")


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


@dataclass(frozen=True, slots=True)
class Ran:
    """A line of the list of devices."""

    rank: int
    host: str
    device: int
    busid: str
    model: str


@dataclass(slots=True)
class Log:
    """`collective`: by ringtree's name; `ranks`: 0 where unknown; `inferred`: notes on either if derived from the
    times. `rows`: one for each size, the quickest of several, with the wrong elements of all."""

    path: Path
    collective: str
    ranks: int
    rows: tuple[NcclTestsRow, ...]
    ran: tuple[Ran, ...] = ()
    debug: Debug = field(default_factory=Debug)
    inferred: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        """Number of hosts that ranks ran on; 0 where the log does not list them."""
        return len({r.host for r in self.ran}) or self.debug.nodes


def read(path: Path, collective: str = "") -> Log:
    """Returns the log in a file. `collective`: which one the log is of, if known. ValueError, naming file and line,
    where the file is no such log."""
    reading = _Reading(path)
    data = file_bytes(path, "the output of nccl-tests", LARGEST_BYTES)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data[:4096]:
        raise ValueError(f"{path}: holds bytes that are no text; expected the output of nccl-tests")
    if data[:4096].lstrip()[:1] == b"{":
        _json(reading, data)
        return reading.log(collective)
    lines = BytesIO(data)
    for number in range(1, MOST_LINES + 1):
        raw = lines.readline(LONGEST_LINE)
        if not raw:
            return reading.log(collective)
        reading.line(raw.decode("utf-8", "replace").rstrip(), number)
    raise ValueError(f"{path}: has more than {MOST_LINES:,} lines; expected a log of fewer")


class _Reading:
    """A file as it is read, line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[NcclTestsRow] = []
        self.taken = 0
        self.ran: list[Ran] = []
        self.debug = Debug()
        self.programs: dict[str, int] = {}
        self.ranks = 0
        self.columns = _columns([])
        self.csv: list[str] = []
        self.quick: dict[int, NcclTestsRow] = {}

    def line(self, text: str, number: int) -> None:
        if self.csv:
            if text and not text.startswith("#"):
                self._csv_row(text, number)
            return
        if text.startswith(("size_B,", "size,")):
            self.csv = [name.strip() for name in text.split(",")]
            return
        if " NCCL INFO " in text:
            self.debug.read(text, number)
            return
        if (fact := _CSV_FACT.match(text)) is not None:
            self._fact(fact[1], fact[2], number)
        elif _HEADER.search(text):
            self.columns = _columns(text[text.index("size") :].split())
        elif _TWO_NUMBERS.search(text) and (found := _ROW.search(text)):
            self._text_row(found, number)
        elif device := _DEVICE.search(text):
            if len(self.ran) < MOST_RANKS:
                rank, host, gpu, busid, model = device.groups()
                self.ran.append(Ran(int(rank[:9]), _shown(host), int(gpu[:9]), _shown(busid), _shown(model)))
        else:
            if "_perf" in text and (program := _PROGRAM.search(text)):
                self.programs.setdefault(COLLECTIVES[program[1]], number)
            self.debug.read(text, number)

    def _fact(self, what: str, value: str, number: int) -> None:
        if what == "collective":
            names = COLLECTIVES | {name: name for name in COLLECTIVES.values()}
            if value not in names:
                raise ValueError(f"{self.path}, line {number}: collective {value}: expected one of {', '.join(names)}")
            self.programs.setdefault(names[value], number)
        else:
            self.ranks = whole(self.path, number, what, value, 1, MOST_RANKS)

    def _text_row(self, found: re.Match[str], number: int) -> None:
        words = found[4].split()
        redop, root = "none", -1
        if words and words[0] in _REDOPS:
            redop = words.pop(0)
        columns = self.columns
        has_root = len(words) in (5, 9) if columns.root is None else columns.root
        if has_root and words and _ROOT.fullmatch(words[0]):
            root = int(words.pop(0))
        if len(words) < 3:
            return  # broken off, or another's output came in between
        starts = columns.starts
        if len(words) <= columns.of_last_side and len(starts) == 2:
            starts = (0,)  # in place alone, as for a replayed trace
        figures = [words[n : n + 4] for n in starts if len(words) >= n + 3]
        if are_numbers(figures):
            self._row(number, (int(found[1]), int(found[2]), found[3], redop, root), figures)

    def _csv_row(self, text: str, number: int) -> None:
        try:
            cells = next(csv.reader([text]))
        except csv.Error as error:
            raise ValueError(f"{self.path}, line {number}: {error}") from None
        if len(cells) != len(self.csv):
            raise ValueError(f"{self.path}, line {number}: {len(cells)} cells; expected {len(self.csv)}, as its header")
        named = dict(zip(self.csv, (c.strip() for c in cells), strict=True))
        timed = [side for side in CSV_SIDES if CSV_SIDES[side][0] in named]
        if not timed or "type" not in named or "count" not in named:
            expected = f"{', '.join(CSV_COLUMNS)}, or one time alone"
            raise ValueError(f"{self.path}, line {number}: expected the columns {expected}")
        figures = [
            [named.get(column, default) for column, default in zip(CSV_SIDES[side], ("", "0", "0", "N/A"), strict=True)]
            for side in timed
            if named[CSV_SIDES[side][0]]
        ]
        root = named.get("root", "-1")
        what = (named[self.csv[0]], named["count"], named["type"], named.get("redop", "none"), root)
        self._row(number, what, figures)

    def _row(self, number: int, what: tuple[Any, ...], figures: Sequence[Sequence[str]]) -> None:
        """Checks and keeps a row; skips rows of no bytes or without a time."""
        self.taken += 1
        if self.taken > MOST_TABLE_LINES:
            raise ValueError(
                f"{self.path}, line {number}: more than {MOST_TABLE_LINES:,} lines of figures; expected one test's"
            )
        nbytes = whole(self.path, number, "size", what[0], 0, 1 << 60)
        measured = [m for f in figures if (m := measured_side(self.path, number, f)) is not None]
        if not nbytes or not measured:
            return
        count = whole(self.path, number, "count", what[1], 0, 1 << 60)
        root = whole(self.path, number, "root", what[4], -1, MOST_RANKS)
        time_s, algbw, busbw, _ = min(measured)
        before = self.quick.get(nbytes)
        if before is None and len(self.quick) >= MOST_ROWS:
            raise ValueError(
                f"{self.path}, line {number}: more than {MOST_ROWS:,} sizes; expected the table of one test"
            )
        wrong = sum(wrong_elements(m[3]) for m in measured)
        wrong_line = number if wrong else 0
        if before is not None:
            wrong, wrong_line = before.wrong + wrong, before.wrong_line or wrong_line
        if before is None or time_s < before.time_s:
            times_s = tuple(m[0] for m in measured)
            self.quick[nbytes] = NcclTestsRow(
                nbytes, count, str(what[2]), str(what[3]), root, times_s, algbw, busbw, wrong, number, wrong_line
            )
        elif wrong > before.wrong:
            self.quick[nbytes] = replace(before, wrong=wrong, wrong_line=wrong_line)

    def log(self, collective: str) -> Log:
        rows = tuple(self.quick[nbytes] for nbytes in sorted(self.quick))
        if not rows:
            raise ValueError(
                f"{self.path}: no line of a table; expected nccl-tests' or rccl-tests' output, with lines of size, "
                "count, type and times"
            )
        if len(self.programs) > 1 and not collective:
            names = " and ".join(f"{name} (line {line})" for name, line in self.programs.items())
            raise ValueError(f"{self.path}: is of {names}; expected the log of one collective")
        inferred: list[str] = []
        name = collective or next(iter(self.programs), "")
        if not name:
            name = _collective(rows)
            inferred.append(f"the log does not name its collective: taken to be {name}, by its columns")
        ranks = self.ranks or (max(r.rank for r in self.ran) + 1 if self.ran else 0) or self.debug.ranks
        if not ranks and (ranks := _ranks(name, rows)):
            inferred.append(f"the log does not list its ranks: taken as {ranks}, by busbw over algbw")
        return Log(self.path, name, ranks, rows, tuple(self.ran), self.debug, tuple(inferred))


class _Columns(NamedTuple):
    """A text table's columns. `root`: whether it has that column; None without a header. `starts`: where the sides'
    figures begin, counted from the first side's; `of_last_side`: number of columns from the last side's first."""

    root: bool | None
    starts: tuple[int, ...]
    of_last_side: int


def _columns(header: Sequence[str]) -> _Columns:
    """The columns by the words of the header."""
    first = next((n for n, name in enumerate(header) if name in _TIMES), None)
    names = ["time", "algbw", "busbw", "#wrong"] * 2 if first is None else header[first:]
    starts = tuple(n for n, name in enumerate(names) if name in _TIMES)
    return _Columns("root" in header if header else None, starts, len(names) - starts[-1])


def _per_rank(rows: Sequence[NcclTestsRow]) -> float:
    """Elements of the whole vector over the row's count: 1, or the number of ranks that share the vector."""
    big = [r for r in rows if r.count * TYPE_BYTES.get(r.type, 0)]
    return median(r.nbytes / (r.count * TYPE_BYTES[r.type]) for r in big[-5:]) if big else 1.0


def _factor(rows: Sequence[NcclTestsRow]) -> float:
    """busbw over algbw; 0 where both are too small to divide."""
    big = [r for r in rows if r.algbw >= 0.5]
    return median(r.busbw / r.algbw for r in big[-5:]) if big else 0.0


def _collective(rows: Sequence[NcclTestsRow]) -> str:
    """The collective, by redop, root and whether the vector is one of blocks. all_to_all prints all_gather's
    columns."""
    one, factor = rows[-1], _factor(rows)
    reduces = one.redop != "none"
    if one.root >= 0:
        return "reduce" if reduces else "broadcast"
    if _per_rank(rows) > 1.5:
        return "reduce_scatter" if reduces else "all_gather"
    if reduces:
        return "all_reduce" if factor == 0 or factor > 0.97 else "reduce_scatter"
    return "send_recv" if factor == 0 or factor > 0.97 else "all_gather"


def _ranks(name: str, rows: Sequence[NcclTestsRow]) -> int:
    """Ranks by nccl-tests' own definitions; 0 where the definitions determine no number."""
    shared, factor = round(_per_rank(rows)), _factor(rows)
    if name in ("all_gather", "reduce_scatter", "all_to_all") and shared > 1:
        return shared
    if name == "all_reduce" and 0.9 < factor < 1.9999:
        return round(2 / (2 - factor))
    if name in ("all_gather", "reduce_scatter", "all_to_all") and 0.4 < factor < 0.9999:
        return round(1 / (1 - factor))
    return 0


def _json(reading: _Reading, raw: bytes) -> None:
    """Reads the JSON that -J writes."""
    try:
        document = json_value(raw, str(reading.path), "the output of nccl-tests")
        results, config = document["results"], document.get("config", {})
        for n, result in enumerate(results):
            forms = [result.get(form) for form in ("out_of_place", "in_place")]
            figures = [
                [str(w.get("time", w.get("cpu_time"))), str(w["alg_bw"]), str(w["bus_bw"]), str(w.get("nwrong") or 0)]
                for w in forms
                if w is not None
            ]
            what = (result["size"], result["count"], result["type"], result["redop"], str(result["root"]).strip())
            reading._row(n + 1, what, figures)
            if program := _PROGRAM.search(str(result.get("experiment_name", ""))):
                reading.programs.setdefault(COLLECTIVES[program[1]], n + 1)
        reading.ran += _ran(config.get("devices", document.get("devices", [])))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        if str(error).startswith(str(reading.path)):
            raise
        raise ValueError(
            f"{reading.path}: is no JSON of nccl-tests ({type(error).__name__}: {str(error)[:80]}); expected "
            "{results: [{size, count, type, redop, root, out_of_place: {time, alg_bw, bus_bw}, …}]}"
        ) from None


def _ran(devices: Sequence[dict[str, Any]]) -> Iterator[Ran]:
    for d in devices:
        host, busid, model = (_shown(str(d[name])) for name in ("hostname", "device_hex", "device_info"))
        yield Ran(int(d["rank"]), host, int(d["device"]), busid, model)


def _shown(text: str) -> str:
    """The printable characters of a name."""
    return "".join(c if c.isprintable() else "?" for c in text[:80]).strip()
