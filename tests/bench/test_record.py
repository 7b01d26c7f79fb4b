"""Records of measurements read back, and other files are refused in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ringtree.bench.machine import MachineDescription
from ringtree.bench.measure import Effort
from ringtree.bench.record import EFFORT, MACHINE, NEEDED, OPTIONAL, TIMES, BenchRow, read

ROW = {"collective": "all_reduce", "ranks": 2, "nbytes": 8, "dtype": "float32", "op": "sum", "time_us": 1.5}
KEPT = Path(__file__).parents[2] / "benchmarks" / "all_reduce_2_ranks.json"


def test_a_record_reads_back() -> None:
    assert read(KEPT) == json.loads(KEPT.read_text(encoding="utf-8"))


def test_a_row_of_another_program_needs_little(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"machine": {}, "rows": [ROW]}), encoding="utf-8-sig")  # as some editors save it
    assert read(path)["rows"] == [ROW]


def test_texts_have_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    record = {"machine": {"cpu": "A\nB", "caches": ["C\x85"]}, "rows": [{**ROW, "library": "D\u2028E\x1b"}]}
    path.write_text(json.dumps(record), encoding="utf-8")
    got = read(path)
    assert got["machine"] == {"cpu": "A\ufffdB", "caches": ["C\ufffd"]}
    assert got["rows"][0]["library"] == "D\ufffdE\ufffd"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ([], "expected `machine` and `rows`"),
        ({"rows": [ROW]}, "expected `machine` and `rows`"),
        ({"machine": {}, "rows": {}}, "expected `machine` and `rows`"),
        ({"machine": {}, "rows": []}, "`rows` is empty; expected a row at least"),
        ({"machine": {}, "rows": [ROW, 3]}, "row 1: expected an object"),
        ({"machine": {}, "rows": [ROW | {"ranks": 0}]}, "row 0: ranks: got 0; expected a whole number, at least 1"),
        ({"machine": {}, "rows": [ROW | {"nbytes": "8"}]}, "row 0: nbytes: got '8'; expected a whole number"),
        ({"machine": {}, "rows": [ROW | {"op": None}]}, "row 0: op: got None; expected its name"),
        ({"machine": {}, "rows": [ROW | {"collective": "x"}]}, "collective: got 'x'; expected one of all_reduce"),
        ({"machine": {}, "rows": [ROW | {"time_us": 0}]}, "row 0: time_us: got 0; expected a time in microseconds"),
        (
            {"machine": {}, "rows": [ROW | {"time_us": "fast"}]},
            "row 0: time_us: got 'fast'; expected a time in microseconds",
        ),
        (
            {"machine": {}, "rows": [ROW | {"time_us": float("nan")}]},
            "row 0: time_us: got nan; expected a time in microseconds",
        ),
        ({"machine": {}, "rows": [ROW | {"library": 3}]}, "row 0: library: got 3; expected its name"),
        ({"machine": {}, "rows": [ROW | {"time_us": -1}]}, "row 0: time_us: got -1; expected a time in microseconds"),
        (
            {"machine": {}, "rows": [ROW | {"time_us": 5e-324}]},
            "row 0: time_us: got 5e-324; expected a time in microseconds",
        ),
        ({"machine": {}, "rows": [ROW | {"time_us": 10**400}]}, "row 0: time_us: got 1000"),
        ({"machine": {}, "rows": [ROW | {"time_us": 0, "time_min_us": 1.0}]}, "row 0: time_us: got 0; expected a time"),
        (
            {"machine": {}, "rows": [ROW | {"in_place_time_us": 0.0}]},
            "row 0: in_place_time_us: got 0.0; expected a time",
        ),
        (
            {"machine": {}, "rows": [ROW | {"time_us": None, "time_min_us": 1.0}]},
            "row 0: expected time_us or in_place_time_us, in microseconds",
        ),
        (
            {"machine": {}, "rows": [ROW | {"out_of_place": False, "in_place_time_min_us": 1.0}]},
            "row 0: expected in_place_time_us, in microseconds, for out_of_place is false",
        ),
        ({"machine": {}, "rows": [ROW], "effort": "much"}, "effort: expected an object"),
        (
            {"machine": {"clock_Hz": float("inf")}, "rows": [ROW]},
            "expected figures that are finite, and text",
        ),
        (
            {"machine": {"cpu": "\ud800"}, "rows": [ROW]},
            "half of a surrogate pair; expected figures that are finite, and text",
        ),
        ({"machine": {}, "rows": [ROW | {"wrong": "no"}]}, "row 0: wrong: got 'no'; expected a whole number"),
        ({"machine": {}, "rows": [ROW, ROW | {"threads": 2 * 10**8}]}, "row 1: threads: got 200000000; expected true"),
        ({"machine": {}, "rows": [ROW | {"threads": None}]}, "row 0: threads: got None; expected true or false"),
        (
            {"machine": {}, "rows": [ROW | {"out_of_place": "x"}]},
            "row 0: out_of_place: got 'x'; expected true or false",
        ),
        ({"machine": {}, "rows": [ROW | {"root": []}]}, "row 0: root: got []; expected a whole number, at least -1"),
        ({"machine": {}, "rows": [ROW | {"ranks": True}]}, "row 0: ranks: got True; expected a whole number"),
        ({"machine": {}, "rows": [ROW | {"time_min_us": True}]}, "row 0: time_min_us: got True; expected a time"),
        ({"machine": {}, "rows": [ROW | {"in_place_time_us": []}]}, "row 0: in_place_time_us: got []; expected a time"),
        (
            {"machine": {}, "rows": [ROW | {"busbw_GBps": -1}]},
            "row 0: busbw_GBps: got -1; expected a number, at least 0",
        ),
        ({"machine": {}, "rows": [ROW | {"predicted_us": {}}]}, "row 0: predicted_us: got {}; expected a number"),
        ({"machine": {"caches": [[]]}, "rows": [ROW]}, "machine: caches: got [[]]; expected a list of texts"),
        ({"machine": {"cores": "2"}, "rows": [ROW]}, "machine: cores: got '2'; expected a whole number"),
        ({"machine": {}, "rows": [ROW], "effort": {"across": None}}, "effort: across: got None; expected a whole"),
    ],
)
def test_something_else_is_refused(tmp_path: Path, record: Any, expected: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=re.escape(f"{path}: ")) as error:
        read(path)
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_every_field_of_a_written_row_is_checked() -> None:
    assert set(BenchRow.__annotations__) == {*NEEDED, *OPTIONAL, *TIMES} - {"library", "predicted_us"}
    assert set(MachineDescription.__annotations__) == set(MACHINE)
    assert set(Effort.__slots__) == set(EFFORT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("[" * 100_000, "nested too deeply"), ("9" * 10_000, "a number has too many digits"), ("{", "not JSON")],
)
def test_unreadable_records_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"{path}: {expected}"):
        read(path)
