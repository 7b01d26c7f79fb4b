"""`ringtree simulate --fit` and `--constants`: from a table to constants, and from them to times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ringtree.cli.simulate.fitting import doubts, fitted_lines
from ringtree.simulate.device.constants import ConstantsFile, DeviceConstants, dumps, load
from ringtree.simulate.device.fit import DeviceFit, MeasuredTable, TableErrors
from tests.cli.conftest import Ringtree
from tests.simulate.device.msccl_ring import written

MADE = DeviceConstants(2e-5, 1e-6, 1e10, 0.8, piece_nbytes=1 << 16, slices=2)
PLACE = "direct:latency=0s,bandwidth=40GB/s"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return written(tmp_path, 2, 1)


@pytest.fixture
def constants(tmp_path: Path) -> Path:
    path = tmp_path / "made.json"
    path.write_text(dumps(ConstantsFile({"Simple": MADE}, PLACE)))
    return path


@pytest.fixture
def table(ringtree: Ringtree, program: Path, constants: Path, tmp_path: Path) -> Path:
    """Simulated times, as CSV of one side."""
    sizes = ",".join(str(2 << k) for k in range(8, 23, 3))
    out = ringtree("simulate", str(program), "--constants", str(constants), "--bytes", sizes).out
    rows = [line.split() for line in out.splitlines() if not line.startswith("#")]
    lines = [f"{r[0]},{int(r[0]) // 8},float,none,-1,{r[5]},{r[6]},{r[7]},0" for r in rows]
    path = tmp_path / "times.csv"
    path.write_text("\n".join(["size,count,type,redop,root,time,algbw,busbw,wrong", *lines]))
    return path


def test_constants_are_fitted_written_and_played(
    ringtree: Ringtree, program: Path, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "fitted.json"
    got = ringtree("simulate", str(program), "--fit", str(table), "--topology", PLACE, "--out", str(out))
    assert got.code == 0 and got.err == "" and f"{out}: `ringtree simulate PROGRAM --constants" in got.out
    assert "note: one table does not separate" in got.out
    found = load(out)
    assert found.topology == PLACE
    beside = ringtree("simulate", str(program), "--constants", str(out), "--measured", str(table))
    assert beside.code == 0 and float(beside.out.split("# median error ")[1].split("%")[0]) < 2


def test_rows_that_a_table_lost_are_named(
    ringtree: Ringtree, program: Path, constants: Path, table: Path, tmp_path: Path
) -> None:
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    log = tmp_path / "run.log"
    log.write_text("\n".join(["# all_gather_perf", *(" ".join(row) for row in rows), "8388608 1048576 float none -1"]))
    lost = f"rows that are broken off, left out: line {len(rows) + 2} (8388608 B)"
    fitted = ringtree("simulate", str(program), "--fit", str(log), "--topology", PLACE)
    assert fitted.code == 0 and f"# {log}: {lost}" in fitted.out
    beside = ringtree("simulate", str(program), "--constants", str(constants), "--measured", str(log))
    assert beside.code == 0 and f"# {lost}" in beside.out


@pytest.mark.parametrize("collective", ["all_gather", "all_reduce"])
def test_a_simulated_table_is_read_back(ringtree: Ringtree, constants: Path, tmp_path: Path, collective: str) -> None:
    words = ("simulate", "ring", "-n", "4", "--collective", collective, "--constants", str(constants))
    log = tmp_path / "run.log"
    log.write_text(ringtree(*words, "--bytes", "64K,1M").out)
    rows = [line.split()[:3] for line in log.read_text().splitlines() if not line.startswith("#")]
    each = 4 if collective == "all_gather" else 1
    assert rows == [[str(n), str(n // each), "byte"] for n in (1 << 16, 1 << 20)]
    got = ringtree(*words, "--measured", str(log))
    assert got.code == 0 and "largest +0.0%" in got.out.replace("-", "+")


def test_sizes_of_blocks_are_rounded_first(ringtree: Ringtree, constants: Path) -> None:
    words = ("simulate", "ring", "-n", "4", "--collective", "all_gather", "--constants", str(constants), "--bytes")
    one, table = ringtree(*words, "1023").out, ringtree(*words, "1023,2K").out
    assert one.startswith("# rounded down to 4 equal blocks: 1,023 to 1,020 bytes\nring all_gather over 4 ranks, 1,020")
    assert "1,023 to 1,020 bytes" in table and "\n        1020 " in table


def test_a_table_without_a_name_is_of_the_programs_collective(
    ringtree: Ringtree, constants: Path, tmp_path: Path
) -> None:
    """all_to_all prints the columns of all_gather."""
    log = tmp_path / "run.log"
    log.write_text("".join(f"{n} {n // 32} float none -1 {n / 1e4:.2f} 10.0 8.75 0\n" for n in (1 << 20, 1 << 22)))
    words = ["-n", "8", "--constants", str(constants), "--measured", str(log)]
    got = ringtree("simulate", "pairwise", "--collective", "all_to_all", *words)
    assert got.code == 0 and "pairwise all_to_all over 8 ranks" in got.out
    other = ringtree("simulate", "ring", "--collective", "all_reduce", *words)
    assert other.code == 1 and "redop none and count" in other.err and "cannot be of all_reduce" in other.err


@pytest.mark.parametrize(
    ("block_Bps", "error", "memory_Bps", "expected"),
    [
        (2e10, 0.02, 5.3e12, ""),
        (1e13, 0.17, 5.3e12, "block_Bps of 10,000 GB/s is above the GPU's memory, 5,300 GB/s (median error 17%)"),
        (1e13, 0.17, None, "block_Bps of 10,000 GB/s is the most that is looked for (median error 17%)"),
        (2e10, 0.43, None, "the times do not fit (median error 43%)"),
    ],
)
def test_a_fit_that_cannot_be_right_is_doubted(
    block_Bps: float, error: float, memory_Bps: float | None, expected: str
) -> None:
    off = np.array([-error, error, error])
    table = TableErrors(MeasuredTable("t.csv", (), (1, 2, 3), (1.0, 1.0, 1.0)), off, off, off)
    found = DeviceFit(replace(MADE, block_Bps=block_Bps), {"launch_s": 0.1, "block_Bps": 0.1}, (table,))
    assert doubts(found, memory_Bps).startswith(expected) and bool(doubts(found, memory_Bps)) is bool(expected)


@pytest.mark.parametrize(
    ("faster", "place"), [(1, PLACE), (3000, PLACE), pytest.param(3000, "mi300x8", marks=pytest.mark.slow)]
)
def test_the_fit_of_a_wrong_table_ends_in_one_warning(
    ringtree: Ringtree, program: Path, table: Path, tmp_path: Path, faster: int, place: str
) -> None:
    head, *rows = [line.split(",") for line in table.read_text().splitlines()]
    for row in rows:
        row[5:8] = f"{float(row[5]) / faster:.6f}", *(f"{float(GBps) * faster:.2f}" for GBps in row[6:8])
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("\n".join(",".join(row) for row in (head, *rows)))
    got = ringtree("simulate", str(program), "--fit", str(wrong), "--topology", place)
    warnings = [line for line in got.out.splitlines() if line.startswith("warning: Simple: ")]
    assert got.code == 0 and len(warnings) == (faster > 1)
    assert all(line.endswith("are the program and the topology those that were timed?") for line in warnings)


def test_one_size_is_shown_with_path_and_links(
    ringtree: Ringtree, program: Path, constants: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "t.json"
    got = ringtree("simulate", str(program), "--constants", str(constants), "--bytes", "2K", "--trace", str(trace))
    assert got.code == 0 and "ring_1_1 all_gather over 2 ranks, 2,048 bytes in 2 chunks" in got.out
    assert "thread blocks of protocol Simple by" in got.out and "critical path" in got.out and trace.exists()
    lines = [line.split() for line in got.out.splitlines()]
    (launch,) = (line for line in lines if "launch" in line and line[:2] == ["0", "s"])
    assert launch[2:4] == ["+20", "µs"] and lines[lines.index(launch) + 1][:2] == ["20", "µs"]
    assert "launch 20 µs (" in got.out


def test_channels_are_thread_blocks(ringtree: Ringtree, constants: Path) -> None:
    def time_us(channels: str) -> float:
        words = ["--collective", "all_gather", "-n", "3", "--constants", str(constants), "--bytes", "3M,6M"]
        lines = ringtree("simulate", "ring", *words, "--channels", channels).out.splitlines()
        return float(lines[-1].split()[5])

    assert 2.7 < time_us("1") / time_us("3") < 3.1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--fit TABLE", "--fit expects --topology"),
        ("--fit none.csv --topology PLACE", "none.csv: no such file; expected the output of nccl-tests"),
        ("--fit PROGRAM --topology PLACE", "no line of a table; expected nccl-tests' or rccl-tests' output"),
        ("--fit WRONG --topology PLACE", "is of all_reduce (line 1); expected the log of all_gather"),
        ("--fit FOUR --topology PLACE", "is of all_gather over 4 ranks; expected all_gather over 2, as"),
        ("--fit =run.log --topology PLACE", "--fit =run.log: expected TABLE, or PROGRAM=TABLE with both files named"),
        ("--fit X= --topology PLACE", "--fit X=: expected TABLE, or PROGRAM=TABLE with both files named"),
        ("--fit TABLE --topology PLACE --bytes 1M", "--bytes does not apply to a fit"),
        ("--fit TABLE --topology PLACE --out TABLE", "is read or written by this command already"),
        ("--fit TABLE --topology PLACE --goal x.goal", "--goal does not apply to a fit"),
        ("--constants CONSTANTS --bytes 1M --chakra x", "--chakra does not apply to thread blocks on a device"),
        ("--out x.json --bytes 1M", "--out is the file of fitted constants: expected --fit TABLE as well"),
        ("--measured TABLE", "expected --constants as well"),
        ("--channels 4 --bytes 1M", "--channels applies to"),
        ("--constants CONSTANTS", "required: --bytes, the size of the whole vector"),
        ("--constants TABLE --bytes 1M", "not JSON"),
        ("--constants CONSTANTS --bytes 1M --slots 3", "--slots does not apply to thread blocks on a device"),
        ("--constants CONSTANTS --bytes 1M --channels 2", "--channels applies to algorithms"),
        ("--constants CONSTANTS --bytes 1M,2M --trace t.json", "--trace does not apply to"),
        ("--constants LL --bytes 1M", "no constants of protocol Simple, which the program has; it has LL"),
        ("", "required: --bytes, the size of the whole vector"),
    ],
)
def test_a_mistake_is_one_line(
    ringtree: Ringtree, program: Path, constants: Path, table: Path, tmp_path: Path, words: str, problem: str
) -> None:
    wrong, four, other = tmp_path / "wrong.csv", tmp_path / "four.csv", tmp_path / "ll.json"
    four.write_text("# nranks: 4\nsize,count,type,time\n1024,64,float,30\n")
    wrong.write_text("# collective: all_reduce\n# nranks: 4\nsize,count,type,time\n1024,256,float,30\n")
    other.write_text(dumps(ConstantsFile({"LL": MADE}, PLACE)))
    named = {"TABLE": table, "PROGRAM": program, "PLACE": PLACE, "WRONG": wrong, "CONSTANTS": constants, "LL": other}
    named["FOUR"] = four
    got = ringtree("simulate", str(program), *(str(named.get(word, word)) for word in words.split()))
    assert got.code == 1 and problem in got.err and got.err.count("\n") == 1 and got.out == ""


def test_a_table_of_fewer_sizes_than_constants_is_refused(
    ringtree: Ringtree, program: Path, table: Path, tmp_path: Path
) -> None:
    lines = table.read_text().splitlines()
    few = tmp_path / "few.csv"
    for rows in (1, 3, 4):
        few.write_text("\n".join(lines[: rows + 1]))
        got = ringtree("simulate", str(program), "--fit", str(few), "--topology", PLACE)
        expected = (
            f"{few}: {rows} size{'s' * (rows > 1)} of Simple, and 4 constants are fitted; expected times of 4 sizes"
        )
        assert (got.code, expected in got.err) == ((1, True) if rows < 4 else (0, False))


def test_times_that_contradict_algbw_are_noted(ringtree: Ringtree, program: Path, table: Path, tmp_path: Path) -> None:
    head, *rows = [line.split(",") for line in table.read_text().splitlines()]
    rows[-1][5] = "1000000.0"
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("\n".join(",".join(row) for row in (head, *rows)))
    got = ringtree("simulate", str(program), "--fit", str(wrong), "--topology", PLACE)
    line = f"line {len(rows) + 1} ({rows[-1][0]} B)"
    assert got.code == 0 and f"# {wrong}: time and algbw contradict each other, the time counts: {line}\n" in got.out
    assert "contradict each" not in ringtree("simulate", str(program), "--fit", str(table), "--topology", PLACE).out


def test_a_table_of_which_most_times_contradict_algbw_is_not_fitted(
    ringtree: Ringtree, program: Path, table: Path, tmp_path: Path
) -> None:
    """As of a column of times in other units: a fit would explain any."""
    head, *rows = [line.split(",") for line in table.read_text().splitlines()]
    for row in rows:
        row[5] = "1000000.0"
    wrong, out = tmp_path / "wrong.csv", tmp_path / "fitted.json"
    wrong.write_text("\n".join(",".join(row) for row in (head, *rows)))
    got = ringtree("simulate", str(program), "--fit", str(wrong), "--topology", PLACE, "--out", str(out))
    assert got.code == 1 and got.out == "" and got.err.count("\n") == 1 and not out.exists()
    of = f"{len(rows)} of {len(rows)} sizes"
    assert f"--fit {wrong}: time and algbw contradict each other in {of}; expected times" in got.err


@pytest.mark.parametrize(("error", "shown"), [(0.02, "2.0%"), (10, "1000.0%"), (11, ">1000%"), (1e62, ">1000%")])
def test_an_error_beyond_all_measure_is_shown_as_one(error: float, shown: str) -> None:
    off = np.array([-0.01, error, error])
    table = TableErrors(MeasuredTable("t.csv", (), (1, 2, 3), (1.0, 1.0, 1.0)), off, off, off)
    found = DeviceFit(MADE, {"launch_s": 0.1}, (table,))
    assert any(shown in line.split() for line in fitted_lines("Simple", found))
