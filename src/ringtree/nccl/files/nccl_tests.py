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
from typing import Any

from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import json_value
from ringtree.nccl.files.debug_log import Debug
from ringtree.nccl.files.deduced import collective_of, contradiction, contradictions, ranks_of
from ringtree.nccl.files.device_lists import MOST_RANKS, NcclTestsRun, Ran, notes, on_other_hosts, refuse_mixed
from ringtree.nccl.files.measured_rows import MeasuredRows, NcclTestsRow
from ringtree.nccl.files.row_numbers import whole
from ringtree.nccl.files.text_rows import TextRows

LARGEST_BYTES = 1 << 28
"""A file beyond this is refused unread."""
LONGEST_LINE = 1 << 14
"""A longer line is cut, and the rest is taken as the next line."""
MOST_LINES = 4_000_000
COLLECTIVES = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast", "reduce": "reduce", "alltoall": "all_to_all", "sendrecv": "send_recv",
    "gather": "gather", "scatter": "scatter",
}  # fmt: skip
"""Collectives by their names in nccl-tests."""
CSV_COLUMNS = ("size_B", "count", "type", "redop", "root", "oop_time_us", "oop_algbw_GBps", "oop_busbw_GBps",
               "ip_time_us", "ip_algbw_GBps", "ip_busbw_GBps")  # fmt: skip
CSV_SIDES = {
    "out of place": ("oop_time_us", "oop_algbw_GBps", "oop_busbw_GBps", "oop_wrong"),
    "in place": ("ip_time_us", "ip_algbw_GBps", "ip_busbw_GBps", "ip_wrong"),
    "one": ("time", "algbw", "busbw", "wrong"),
}
"""The columns of a side of a CSV; one side alone has names of its own."""
_COLUMNS = {*CSV_COLUMNS, "size", *(column for side in CSV_SIDES.values() for column in side)}
MOST_DIFFER = 16
"""Columns that are named where lines of one size differ in them."""
_COLOURS = re.compile(r"\x1b\[[0-?]{0,64}[ -/]{0,16}[@-~]")
_PROGRAM = re.compile(r"\b(" + "|".join(COLLECTIVES) + r")_perf\b")
_OTHER_PROGRAM = re.compile(r"Collective test (?:starting|concluded): (\w{1,60}_perf)\b|"
                            r"\b((?:hypercube|alltoallv|all_reduce_bias)_perf)\b")  # fmt: skip
"""Programs of nccl-tests and rccl-tests that measure no collective with a prediction."""
_DEVICE = re.compile(r"#\s+Rank\s+(\d+)\s(?:\s*Group\s+(\d+)\s)?(?:\s*Pid\s+(\d+)\s)?.*?\bon\s+(\S+)\s+device\s+(\d+)"
                     r"\s+\[([^\]]*)\]\s*(.*)")  # fmt: skip
_OUT_OF_BOUNDS = re.compile(r"# Out of bounds values : ([1-9]\d{0,17}) FAILED")
_CSV_HEAD = re.compile(r'(?:size|size_B|"size"|"size_B")\s?([,;\t|])')
_CSV_FACT = re.compile(r"#\s*(collective|nranks)\s*:\s*(\w+)")


@dataclass(slots=True)
class Log:
    """`collective`: by ringtree's name; `ranks`: 0 where unknown, the likeliest of `ranks_that_fit` where the log does
    not list them; `inferred`: notes on either if derived from the times. `rows`: one for each size, the quickest of
    several, with the wrong elements of all."""

    path: Path
    collective: str
    ranks: int
    rows: tuple[NcclTestsRow, ...]
    ran: tuple[Ran, ...] = ()
    debug: Debug = field(default_factory=Debug)
    inferred: tuple[str, ...] = ()
    ranks_that_fit: range = range(0)

    def of_nodes(self, gpus: int, nodes: int | None) -> Log:
        """This log with ranks that fit and are so many nodes (None: any number) of all their GPUs, where there are
        such: the nearest to the likeliest."""
        near = [gpus * (nodes or 0)]
        if nodes is None and gpus:
            nearest = round(self.ranks / gpus) * gpus
            near = [nearest, nearest + gpus, nearest - gpus]
        return next((replace(self, ranks=n) for n in near if n in self.ranks_that_fit), self)

    @property
    def nodes(self) -> int:
        """Number of hosts that ranks ran on; 0 where the log does not list them."""
        return len({r.host for r in self.ran}) or self.debug.nodes


def read(path: Path, collective: str = "") -> Log:
    """Returns the log in a file. `collective`: which one the log is of, if known. ValueError, naming file and line,
    where the file is no such log."""
    reading = _Reading(path)
    data = file_bytes(path, "the output of nccl-tests", LARGEST_BYTES)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{path}: is UTF-16, as PowerShell's > writes it; expected UTF-8 (Set-Content -Encoding utf8)")
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
        text = _COLOURS.sub("", raw.decode("utf-8", "replace")).rstrip()
        reading.line(text, number)
        if not raw.endswith(b"\n"):
            reading.text.end(text, number)
    raise ValueError(f"{path}: has more than {MOST_LINES:,} lines; expected a log of fewer")


class _Reading:
    """A file as it is read, line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, MeasuredRows] = {}  # by the program that was named last before them
        self.runs: list[NcclTestsRun] = []
        self.debug = Debug()
        self.programs: dict[str, int] = {}
        self.program = ""
        self.out_of_bounds = ""
        self.ranks = 0
        self.text = TextRows(self.row)
        self.csv: list[str] = []
        self.unread: dict[str, dict[str, str]] = {}  # cells of other columns of a CSV, by column and size
        self.differ: dict[str, None] = {}  # those in which lines of one size differ

    def line(self, text: str, number: int) -> None:
        if self.csv:
            if text and not text.startswith("#"):
                self._csv_row(text, number)
            return
        if text[:1] in ("s", '"') and (head := _CSV_HEAD.match(text)):
            if head[1] != ",":
                raise ValueError(f"{self.path}, line {number}: columns divided by {head[1]!r}; expected commas")
            self.csv = [name.strip(' "') for name in text.split(",")]
            return
        if self.text.line(text, number):
            if "NCCL INFO" in text:  # in the row's line
                self.debug.read(text, number)
        elif " NCCL INFO " in text:
            self.debug.read(text, number)
        elif (fact := _CSV_FACT.match(text)) is not None:
            self._fact(fact[1], fact[2], number)
        elif self.text.header(text):
            return
        elif device := _DEVICE.search(text):
            rank, group, pid, host, gpu, busid, model = device.groups()
            number_of = whole(self.path, number, "rank", rank, 0, MOST_RANKS - 1)
            names = _shown(host), int(gpu[:9]), _shown(busid), _shown(model), (pid or "")[:9]
            self.ran(Ran(number_of, *names), group or "0", number)
        else:
            if "_perf" in text and (program := _program_in(text)):
                self.name(program, number)
            elif "# Out of bounds" in text and (found := _OUT_OF_BOUNDS.search(text)):
                self.out_of_bounds = f"line {number}: {found[1]} values out of bounds"
            self.debug.read(text, number)

    def name(self, program: str, number: int) -> None:
        """The rows from here on are that program's, and so are those before where no program was named."""
        self.text.end()
        if not self.program and "" in self.rows:
            self.rows[program] = self.rows.pop("")
            for run in self.runs:
                if "" in run.quickest:
                    run.quickest[program] = run.quickest.pop("")
        self.program = program
        self.programs.setdefault(program, number)

    def ran(self, device: Ran, group: str, number: int) -> None:
        """A line of a list of devices: behind rows, another run's."""
        self.text.end()
        if not self.runs or self.runs[-1].quickest:
            self.runs.append(NcclTestsRun(number))
        self.runs[-1].add(device, int(group[:9]), number)

    def row(self, number: int, what: tuple[Any, ...], figures: Sequence[Sequence[str]]) -> None:
        """A row of the program that was named last."""
        if self.program not in self.rows:
            self.rows[self.program] = MeasuredRows(self.path)
        row = self.rows[self.program].add(number, what, figures)
        if self.runs:
            self.runs[-1].measured(self.program, row)

    def _fact(self, what: str, value: str, number: int) -> None:
        if what == "collective":
            names = COLLECTIVES | {name: name for name in COLLECTIVES.values()}
            if value not in names:
                raise ValueError(f"{self.path}, line {number}: collective {value}: expected one of {', '.join(names)}")
            self.name(names[value], number)
        else:
            self.ranks = whole(self.path, number, what, value, 1, MOST_RANKS)

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
        self.row(number, what, figures)
        for column in named.keys() - _COLUMNS - {self.csv[0]} if len(self.differ) < MOST_DIFFER else ():
            if self.unread.setdefault(column, {}).setdefault(named[self.csv[0]], named[column]) != named[column]:
                self.differ[column] = None

    def log(self, collective: str) -> Log:
        self.text.end()
        program = self._program(collective)
        measured = self.rows[program]
        rows = measured.by_size()
        if measured.other_line:
            raise ValueError(
                f"{self.path}, line {measured.other_line}: a row of another collective than the one before it, by "
                "redop, root or count; expected the table of one test"
            )
        if collective and program != collective:
            self._check_columns(collective, rows)
        runs = [run for run in self.runs if program in run.quickest]
        refuse_mixed(self.path, runs)
        ran, ranks = (runs[0].ran, runs[0].ranks) if runs else ((), 0)
        inferred = [*self.text.notes(), *measured.notes(), *notes(runs)]
        inferred.extend(filter(None, [on_other_hosts(runs, program) or measured.spread()]))
        if 0 < ranks < self.debug.ranks:
            in_lines = f"NCCL's lines have {self.debug.ranks} ranks, the list of devices {ranks}"
            inferred.append(f"{in_lines}: is the log of one run?")
        name = collective or program
        if name and program not in ("", name):
            inferred.append(f"the log is of {program}: compared with {name} all the same")
        if not name:
            name = collective_of(rows)
            inferred.append(f"the log does not name its collective: taken to be {name}, by its columns")
        ranks = self.ranks or ranks or self.debug.ranks
        likeliest, fit = (ranks, range(0)) if ranks else ranks_of(name, rows)
        if fit:
            ranks = likeliest
            words = f"{fit[0]} to {fit[-1]} fit" if len(fit) > 1 else f"taken as {ranks}"
            inferred.append(f"the log does not list its ranks: {words}, by busbw over algbw")
        if self.differ:
            columns = ", ".join(sorted(map(_shown, self.differ)))
            inferred.append(f"lines of one size differ in columns that are not read ({columns}): the quickest counts")
        inferred.extend(contradictions(rows))
        if self.out_of_bounds and not any(row.wrong for row in rows):
            inferred.append(f"WRONG RESULTS: {self.out_of_bounds}, in no line of the table")
        return Log(self.path, name, ranks, rows, ran, self.debug, tuple(inferred), fit)

    def _program(self, collective: str) -> str:
        """The program whose rows count; "" where none is named. ValueError: it is not clear which."""
        there = [program for program, rows in self.rows.items() if rows.quickest]
        if not there:
            if timeless := [row for rows in self.rows.values() for row in rows.timeless]:
                line, nbytes = timeless[0]
                raise ValueError(
                    f"{self.path}, line {line}: the row of {nbytes} B has a time of 0, and no row has another; "
                    "expected microseconds"
                )
            if broken := self.text.left_out:
                line, nbytes = broken[0]
                raise ValueError(
                    f"{self.path}, line {line}: the row of {nbytes} B is broken off, and no row is whole; expected "
                    "lines of size, count, type and times"
                )
            raise ValueError(
                f"{self.path}: no line of a table; expected nccl-tests' or rccl-tests' output, with lines of size, "
                "count, type and times"
            )
        if collective in there:
            return collective
        if there == [""]:
            return ""
        others = [name for name in there if name not in ("", *COLLECTIVES.values())]
        if collective and len(there) == len(others) == 1:
            return there[0]
        if collective or len(self.programs) > 1:
            names = " and ".join(f"{name} (line {line})" for name, line in self.programs.items())
            raise ValueError(f"{self.path}: is of {names}; expected the log of {collective or 'one collective'}")
        if others:
            known = ", ".join(f"{name}_perf" for name in COLLECTIVES)
            raise ValueError(
                f"{self.path}, line {self.programs[others[0]]}: is of {others[0]}, for which there is no prediction; "
                f"expected one of {known}, or with --collective the one to compare with"
            )
        return there[0]

    def _check_columns(self, collective: str, rows: Sequence[NcclTestsRow]) -> None:
        """ValueError: rows without a program's name that cannot be of that collective."""
        redop, root = ("redop" in self.csv, "root" in self.csv) if self.csv else (self.text.redop, self.text.root)
        if found := contradiction(collective, rows[-1], redop, root):
            raise ValueError(
                f"{self.path}, line {rows[-1].line}: {found} cannot be of {collective}; expected the collective of "
                f"these columns, such as {collective_of(rows)}"
            )


def _json(reading: _Reading, raw: bytes) -> None:
    """Reads the JSON that -J writes."""
    try:
        document = json_value(raw, str(reading.path), "the output of nccl-tests")
        results, config = document["results"], document.get("config", {})
        for device, group in _devices(config.get("devices", document.get("devices", []))):
            whole(reading.path, 1, "rank", device.rank, 0, MOST_RANKS - 1)
            reading.ran(device, group, 1)
        for n, result in enumerate(results):
            forms = [result.get(form) for form in ("out_of_place", "in_place")]
            figures = [
                [str(w.get("time", w.get("cpu_time"))), str(w["alg_bw"]), str(w["bus_bw"]), str(w.get("nwrong") or 0)]
                for w in forms
                if w is not None
            ]
            what = (result["size"], result["count"], result["type"], result["redop"], str(result["root"]).strip())
            reading.row(n + 1, what, figures)
            if program := _program_in(f"Collective test starting: {result.get('experiment_name', '')}"):
                reading.name(program, n + 1)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        if str(error).startswith(str(reading.path)):
            raise
        why = f"no {error}" if isinstance(error, KeyError) else "a value of another kind"
        raise ValueError(
            f"{reading.path}: is no JSON of nccl-tests ({why}); expected "
            "{results: [{size, count, type, redop, root, out_of_place: {time, alg_bw, bus_bw}, …}]}"
        ) from None


def _program_in(text: str) -> str:
    """The program that a text names: by its collective, or by its own name where it measures another."""
    if known := _PROGRAM.search(text):
        return COLLECTIVES[known[1]]
    other = _OTHER_PROGRAM.search(text)
    return (other[1] or other[2]) if other else ""


def _devices(devices: Sequence[dict[str, Any]]) -> Iterator[tuple[Ran, str]]:
    for d in devices:
        host, busid, model = (_shown(str(d[name])) for name in ("hostname", "device_hex", "device_info"))
        pid = str(d.get("pid", ""))[:9]
        yield Ran(int(d["rank"]), host, int(d["device"]), busid, model, pid), str(int(d.get("group", 0)))


def _shown(text: str) -> str:
    """The printable characters of a name."""
    return "".join(c if c.isprintable() else "?" for c in text[:80]).strip()
