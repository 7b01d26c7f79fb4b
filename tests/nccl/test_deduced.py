"""The ranks of a table whose log does not list them: by figures of two decimals, so that several numbers may fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.nccl.files import nccl_tests
from ringtree.nccl.files.deduced import ranks_of
from ringtree.nccl.files.measured_rows import NcclTestsRow
from ringtree.nccl.files.nccl_tests import read

FACTORS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}


def row(name: str, ranks: int, nbytes: int, algbw: float) -> NcclTestsRow:
    """As printed, with two decimals; without the counts that say the ranks of vectors in blocks."""
    busbw = algbw * FACTORS[name] * (ranks - 1) / ranks
    kinds = ("float", "sum") if name in ("all_reduce", "reduce_scatter") else ("float", "none")
    return NcclTestsRow(
        nbytes, nbytes // 4, *kinds, -1, (nbytes / algbw / 1e9,), round(algbw, 2), round(busbw, 2), 0, 1
    )


@given(
    name=st.sampled_from(sorted(FACTORS)),
    ranks=st.integers(2, 1024),
    algbws=st.lists(st.floats(1, 500), min_size=1, max_size=12),
)
def test_the_ranks_fit_their_own_table(name: str, ranks: int, algbws: list[float]) -> None:
    rows = [row(name, ranks, 1 << (20 + n), algbw) for n, algbw in enumerate(algbws)]
    likeliest, fit = ranks_of(name, rows)
    assert (likeliest in fit) == bool(fit)
    if fit and len(fit) > 1:
        assert ranks in fit
    if ranks <= 16 and min(algbws) >= 20:
        assert likeliest == ranks


def test_rows_that_contradict_each_other_leave_the_likeliest() -> None:
    """As of a file that nobody measured: no number of ranks has a busbw of twice algbw and more."""
    for factor in (2.0, 3.0):
        odd = NcclTestsRow(1 << 20, 1 << 18, "float", "sum", -1, (1e-3,), 100.123456789, 100.123456789 * factor, 0, 1)
        rows = [odd, *(row("all_reduce", 8, 1 << (21 + n), 100.0) for n in range(5))]
        assert ranks_of("all_reduce", rows) == (8, range(8, 9))


@pytest.mark.parametrize(("form", "line"), [("text", 2), ("csv", 3), ("json", 2)])
@pytest.mark.parametrize(("time_us", "algbw"), [(384.5, 3.49), (38450.0, 349.07), (1e6, 3.49)])
def test_a_time_that_contradicts_its_algbw_is_noted(
    tmp_path: Path, form: str, line: int, time_us: float, algbw: float
) -> None:
    """134 MB in 38.45 ms are 3.49 GB/s; a row without algbw has nothing to contradict."""
    rows = [(1 << 27, 38450.0, 3.49), (1 << 28, time_us, algbw), (1 << 29, 1.0, 0.0)]
    table = [(n, n // 4, "float", "sum", -1, us, GBps, GBps * 1.75, 0) for n, us, GBps in rows]
    if form == "json":
        names = ("size", "count", "type", "redop", "root", "time", "alg_bw", "bus_bw", "nwrong")
        results = [dict(zip(names, row, strict=True)) for row in table]
        text = json.dumps({"results": [r | {"out_of_place": r} for r in results]})
    elif form == "csv":
        head = "size,count,type,redop,root,time,algbw,busbw,wrong"
        text = "\n".join([head, *(",".join(map(str, row)) for row in table)])
    else:
        text = "\n".join(" ".join(map(str, row)) for row in table)
    path = tmp_path / "any"
    path.write_text(text + "\n")
    (note,) = (note for note in read(path).inferred if "algbw contradict" in note)
    assert note == f"time and algbw contradict each other, the time counts: line {line} (268435456 B)"


@pytest.mark.parametrize(("nbytes", "count", "kind", "noted"), [
    (1 << 27, 1 << 25, "float", False),
    ((1 << 27) - 1, 1 << 25, "float", True),
    (1 << 27, 1 << 22, "float", False),
    (1 << 27, 1 << 26, "float", True),
    (1 << 27, 1 << 26, "half", False),
    (96, 3, "double", False),
    (100, 3, "double", True),
    (1 << 27, 1 << 26, "float6", False),
    (1 << 27, 0, "float", False),
])  # fmt: skip
def test_a_size_that_is_no_multiple_of_its_count_is_noted(
    tmp_path: Path, nbytes: int, count: int, kind: str, noted: bool
) -> None:
    path = tmp_path / "any.csv"
    path.write_text(f"size,count,type,redop,root,time,algbw,busbw,wrong\n{nbytes},{count},{kind},sum,-1,50,0,0,0\n")
    notes = [note for note in read(path).inferred if "contradict" in note]
    assert notes == [f"size and count contradict each other, the size counts: line 2 ({nbytes} B)"] * noted


OTHER = "1024 256 float none -1 50 0.02 0.02 0\n"


def as_json(program: str) -> str:
    names = {"size": 1024, "count": 256, "type": "float", "redop": "none", "root": -1, "experiment_name": program}
    return json.dumps({"results": [names | {"out_of_place": {"time": 50, "alg_bw": 0.02, "bus_bw": 0.02}}]})


@pytest.mark.parametrize(("text", "program"), [
    (f"# Collective test starting: hypercube_perf\n{OTHER}", "hypercube_perf"),
    (f"# Collective test starting: my_own_perf\n{OTHER}", "my_own_perf"),
    (f"{OTHER}# Collective test concluded: my_own_perf\n", "my_own_perf"),
    (f"srun ./build/alltoallv_perf -b 1K\n{OTHER}", "alltoallv_perf"),
    (as_json("hypercube_perf"), "hypercube_perf"),
])  # fmt: skip
def test_a_program_without_a_prediction_is_refused_unless_one_is_named(tmp_path: Path, text: str, program: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(text)
    with pytest.raises(
        ValueError, match=rf"run\.log, line \d: is of {program}, .*; expected one of all_reduce_perf, .*"
    ):
        read(path)
    log = read(path, "all_gather")
    assert log.collective == "all_gather"
    assert f"the log is of {program}: compared with all_gather all the same" in log.inferred
    with pytest.raises(ValueError, match="redop none cannot be of all_reduce"):
        read(path, "all_reduce")


@pytest.mark.parametrize("line", ["srun my_perf -n 2", "# ib_write_perf", "cd /opt/nccl_perf", ""])
def test_other_words_name_no_program(tmp_path: Path, line: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(f"{line}\n{OTHER}")
    assert "the log does not name its collective: taken to be send_recv, by its columns" in read(path).inferred


def test_beside_a_program_without_a_prediction_the_other_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    one = "# Collective test starting: all_gather_perf\n" + OTHER
    path.write_text(one + one.replace("all_gather", "hypercube").replace("50", "20"))
    with pytest.raises(
        ValueError, match=r"is of all_gather \(line 1\) and hypercube_perf \(line 3\); expected the log of"
    ):
        read(path)
    log = read(path, "all_gather")
    assert [row.time_s for row in log.rows] == [pytest.approx(50e-6)] and not any(
        "the log is" in n for n in log.inferred
    )


def log_of(folder: Path, ranks: int, algbws: list[float]) -> Path:
    rows = [row("all_reduce", ranks, 1 << (26 + n), algbw) for n, algbw in enumerate(algbws)]
    side = [f"{r.time_s * 1e6:.2f} {r.algbw:.2f} {r.busbw:.2f} 0" for r in rows]
    lines = [f"{r.nbytes} {r.count} float sum -1 {s} {s}" for r, s in zip(rows, side, strict=True)]
    path = folder / "table.log"
    path.write_text("\n".join(lines) + "\n")
    return path


SLOW = [57.15, 57.28, 57.31, 57.4, 57.42]


@pytest.mark.parametrize(
    ("nodes", "expected"), [(None, 128), (16, 128), (15, 129)]
)  # 129 is the likeliest; none of 15 nodes fits
def test_whole_nodes_are_taken_where_they_fit(tmp_path: Path, nodes: int | None, expected: int) -> None:
    log = nccl_tests.read(log_of(tmp_path, 129, SLOW))
    assert {128, 129} <= set(log.ranks_that_fit) and log.ranks == 129
    assert log.of_nodes(8, nodes).ranks == expected


@pytest.mark.parametrize(("name", "redop", "root", "blocks", "factor", "why"), [
    ("all_reduce", "sum", -1, 1, 1.75, ""),
    ("reduce_scatter", "sum", -1, 8, 0.875, ""),
    ("all_to_all", "none", -1, 8, 0.875, ""),
    ("reduce", "avg", 0, 1, 1.0, ""),
    ("broadcast", "none", 3, 1, 1.0, ""),
    ("gather", "none", 0, 8, 0.875, ""),
    ("send_recv", "sum", -1, 1, 1.0, ""),
    ("send_recv", "none", -1, 1, 1.0, ""),
    ("send_recv", "sum", -1, 1, 1.75, "busbw 1.75 times algbw"),
    ("broadcast", "sum", -1, 1, 1.75, "redop sum and root -1"),
    ("all_gather", "sum", -1, 1, 1.75, "redop sum"),
    ("all_reduce", "none", -1, 1, 0.875, "redop none"),
    ("all_reduce", "sum", 0, 1, 1.0, "root 0"),
    ("all_reduce", "sum", -1, 8, 0.875, "count 1048576 of 33554432 B"),
])  # fmt: skip
def test_a_collective_that_the_columns_contradict_is_refused(
    tmp_path: Path, name: str, redop: str, root: int, blocks: int, factor: float, why: str
) -> None:
    path = tmp_path / "run.log"
    path.write_text(f"{1 << 25} {(1 << 23) // blocks} float {redop} {root} 100.0 335.54 {335.54 * factor:.2f} 0\n")
    if not why:
        assert read(path, name).collective == name
        return
    expected = f"run.log, line 1: {why} cannot be of {name}; expected the collective of these columns, such as "
    with pytest.raises(ValueError, match=re.escape(expected)):
        read(path, name)


def test_columns_that_a_table_lacks_contradict_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(f"size,count,type,time,algbw,busbw,wrong\n{1 << 25},{1 << 23},float,100.0,335.54,335.54,0\n")
    assert read(path, "reduce").collective == "reduce"
    path.write_text(f"{1 << 25} {1 << 23} float 100.0 335.54 335.54 0\n")
    assert read(path, "reduce").collective == "reduce"
