"""Rows of nccl-tests of one size: what they differ in is noted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.nccl.test_nccl_tests import log_of


@pytest.mark.parametrize(("first", "second", "note"), [
    ("float sum -1", "half sum -1", "type (float, half)"),
    ("half sum -1", "half avg -1", "redop (avg, sum)"),
    ("half none 0", "half none 3", "root (0, 3)"),
])  # fmt: skip
@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_what_rows_of_one_size_differ_in_is_noted(
    tmp_path: Path, form: str, first: str, second: str, note: str
) -> None:
    rows = [(1024, 64, *words.split(), us) for words, us in ((first, 50.0), (first, 45.0), (second, 40.0))]
    if form == "text":
        text = "".join(" ".join(map(str, (*row, 0.02, 0.04, 0))) + "\n" for row in rows)
    elif form == "csv":
        head = "size,count,type,redop,root,time,algbw,busbw,wrong\n"
        text = head + "".join(",".join(map(str, (*row, 0.02, 0.04, 0))) + "\n" for row in rows)
    else:
        names = ("size", "count", "type", "redop", "root")
        sides = [{"time": row[-1], "alg_bw": 1.0, "bus_bw": 1.5, "nwrong": 0} for row in rows]
        results = [
            dict(zip(names, row, strict=False)) | {"out_of_place": s} for row, s in zip(rows, sides, strict=True)
        ]
        text = json.dumps({"results": results})
    log = log_of(tmp_path, text)
    assert f"rows of one size differ in {note}: the quickest counts" in log.inferred
    assert [row.time_s for row in log.rows] == [pytest.approx(40e-6)]


def test_rows_alike_have_no_note_and_many_values_are_counted(tmp_path: Path) -> None:
    def table(roots: int) -> str:
        return "".join(f"1024 256 float none {root} 50 0.02 0.02 0\n" * 2 for root in range(roots))

    assert not any("differ" in note for note in log_of(tmp_path, table(1)).inferred)
    (note,) = (note for note in log_of(tmp_path, table(20)).inferred if "differ" in note)
    assert note == "rows of one size differ in root (0, 1, 10, 11, 12, 13, 14, 15 and 12 more): the quickest counts"


GOOD, ZERO = "50.00 0.02 0.04 0", "0.00 0.00 0.00 0"


@pytest.mark.parametrize(("sides", "times_us", "note"), [
    ((GOOD, GOOD), (50, 50), ""),
    ((ZERO, GOOD), (50,), "rows with one of their times 0, of which the other counts: line 2 (2048 B)"),
    ((GOOD, ZERO), (50,), "rows with one of their times 0, of which the other counts: line 2 (2048 B)"),
    ((ZERO, ZERO), None, "rows with a time of 0, left out: line 2 (2048 B)"),
])  # fmt: skip
@pytest.mark.parametrize("form", ["text", "csv"])
def test_a_time_of_0_is_no_measurement_and_noted(
    tmp_path: Path, form: str, sides: tuple[str, str], times_us: tuple[int, ...] | None, note: str
) -> None:
    rows = [f"1024 256 float sum -1 {GOOD} {GOOD}", f"2048 512 float sum -1 {' '.join(sides)}"]
    head = ""
    if form == "csv":
        head = ",".join(("size,count,type,redop,root", *(f"{side}_{what}" for side in ("oop", "ip") for what in (
            "time_us", "algbw_GBps", "busbw_GBps", "wrong"))))  # fmt: skip
        rows = [row.replace(" ", ",") for row in rows]
    log = log_of(tmp_path, "\n".join((rows[0], rows[1])) if form == "text" else "\n".join((head, *rows)))
    line = "line 2" if form == "text" else "line 3"
    noted = [n for n in log.inferred if "times 0" in n or "time of 0" in n]
    assert noted == [note.replace("line 2", line)] * bool(note)
    assert {row.nbytes: row.times_s for row in log.rows}.get(2048) == (times_us and tuple(t * 1e-6 for t in times_us))


def test_rows_of_no_elements_have_no_time_to_note(tmp_path: Path) -> None:
    log = log_of(tmp_path, f"8 0 float none -1 {ZERO} {ZERO}\n1024 64 float none -1 {GOOD} {GOOD}\n")
    assert not any("of 0" in note or "times 0" in note for note in log.inferred)


def test_a_log_of_times_of_0_alone_is_refused_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 2: the row of 1024 B has a time of 0, and no row has another"):
        log_of(tmp_path, f"# all_reduce_perf\n1024 256 float sum -1 {ZERO} {ZERO}\n")
