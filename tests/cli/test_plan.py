"""`ringtree plan` for a cluster: its table, its records, its files for NCCL, and mistakes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from ringtree.machines.channels import Pattern
from ringtree.nccl.files import graph_xml, tuner_csv
from tests.cli.conftest import Ringtree

FOUR = ["plan", "all_reduce", "--topology", "dgx-h100", "--nodes", "4"]


def rows(out: str) -> list[list[str]]:
    """The table's lines, in cells."""
    return [line.split() for line in out.splitlines() if line and not line.startswith("#")]


def test_a_table_in_nccl_tests_manner(ringtree: Ringtree) -> None:
    got = ringtree(*FOUR, "--bytes", "8:8G")
    assert got.code == 0 and got.err == ""
    table = rows(got.out)
    assert [int(row[0]) for row in table] == [8 << k for k in range(31)]
    times = [float(row[4]) for row in table]
    assert times[0] > 0 and times[-1] > 10 * times[-5]
    assert all(0 < int(row[8].rstrip("%")) <= 100 for row in table)
    assert "# on dgx-h100 x4: 8 GPUs a node, 8 NICs of 50 GB/s (400 Gb/s), infiniband over rails" in got.out
    assert "of bound; bottleneck: " in got.out and "# lower bound " in got.out


def test_records_hold_the_tables_values(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    out = ringtree(*FOUR, "--bytes", "1K,64M", "--json", str(file)).out
    found = json.loads(file.read_text())["rows"]
    keys = [
        "nbytes",
        "algorithm",
        "protocol",
        "channels",
        "time_us",
        "low_us",
        "high_us",
        "algbw_GBps",
        "busbw_GBps",
        "bound_fraction",
        "bottleneck",
        "unknowns",
    ]
    assert [list(row) for row in found] == [keys, keys]
    for row, shown in zip(found, rows(out), strict=True):
        assert [str(row[k]) for k in keys[:4]] == shown[:4]
        assert row["time_us"] == pytest.approx(float(shown[4]), rel=0.01)
        assert row["busbw_GBps"] == pytest.approx(row["algbw_GBps"] * 2 * 31 / 32)
        assert row["algbw_GBps"] == pytest.approx(row["nbytes"] / row["time_us"] / 1e3)


def test_the_interval_is_in_the_table_and_in_json(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    out = ringtree(*FOUR, "--bytes", "1K,8G", "--json", str(file)).out
    for row, shown in zip(json.loads(file.read_text())["rows"], rows(out), strict=True):
        assert row["low_us"] < row["time_us"] < row["high_us"] and row["unknowns"]
        less, more = (100 * (row[end] / row["time_us"] - 1) for end in ("low_us", "high_us"))
        assert shown[5] == f"{less:.0f}/+{more:.0f}%"
    assert "# interval at 8 GiB, widest unknown: " in out
    assert "measured systems of this class: all_reduce of Hopper GPUs over nvlink and infiniband" in out
    other = ringtree("plan", "broadcast", "--topology", "aws-p4d", "--nodes", "2", "--bytes", "1M").out
    assert "# no measured system of this class was compared (broadcast of Ampere GPUs over nvlink and efa)" in other


def test_nccls_own_estimate_is_without_an_interval(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    out = ringtree(*FOUR, "--bytes", "1M", "--model", "nccl", "--json", str(file)).out
    assert rows(out)[0][5] == "-" and "interval at" not in out
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["low_us"], row["high_us"], row["unknowns"]) == (None, None, [])


def test_all_shows_every_candidate_and_marks_the_pick(ringtree: Ringtree) -> None:
    out = ringtree("plan", "all_reduce", "--topology", "dgx-a100", "--bytes", "1M", "--all").out
    assert {row[1] for row in rows(out)} == {"ring", "tree"}
    assert out.count("<- NCCL's choice") == 1
    times = [float(row[4]) for row in rows(out)]
    assert times == sorted(times)


def test_an_algorithm_and_a_protocol_can_be_forced(ringtree: Ringtree) -> None:
    out = ringtree(*FOUR, "--bytes", "8:8G:64", "--algorithm", "ring", "--protocol", "simple").out
    assert {(row[1], row[2]) for row in rows(out)} == {("ring", "simple")}


def test_forced_names_may_be_spelt_as_in_nccl(ringtree: Ringtree) -> None:
    ours = ringtree(*FOUR, "--bytes", "64M", "--algorithm", "nvls_tree", "--protocol", "simple").out
    assert ringtree(*FOUR, "--bytes", "64M", "--algorithm", "NVLSTree", "--protocol", "Simple").out == ours


def test_part_of_a_machine_and_other_nics(ringtree: Ringtree) -> None:
    half = ringtree("plan", "all_reduce", "--topology", "dgx-h100", "--gpus", "4", "--bytes", "1G").out
    assert "over 4 ranks" in half
    slow, quick = (
        float(rows(ringtree(*FOUR, "--nics", nics, "--bytes", "8G").out)[0][7]) for nics in ("8x100Gb", "8x200Gb")
    )
    assert quick == pytest.approx(2 * slow, rel=0.05)


@pytest.mark.parametrize("fabric", ["infiniband", "roce", "efa", "slingshot", "tcp", "tcpx"])
def test_every_fabric_has_an_answer(ringtree: Ringtree, fabric: str) -> None:
    assert f"{fabric} over rails" in ringtree(*FOUR, "--fabric", fabric, "--bytes", "64M").out


def test_exported_files_read_back(ringtree: Ringtree, tmp_path: Path) -> None:
    graph, tuner = tmp_path / "graph.xml", tmp_path / "tuner.csv"
    ringtree(*FOUR, "--bytes", "8:8G:8", "--export-graph", str(graph), "--export-tuner", str(tuner))
    assert set(graph_xml.read(graph)) >= {Pattern.RING}
    lines = tuner_csv.read(tuner.read_text())
    assert {(row.nodes, row.ranks) for row in lines} == {(4, 32)}
    assert lines[0].min_bytes == 0
    assert all(a.max_bytes + 1 == b.min_bytes for a, b in pairwise(lines))


MISTAKES = [
    (
        "all_to_all --topology dgx-h100 --export-tuner x.csv",
        "a tuner's row has collective 'all_to_all': expected one of",
    ),
    ("all_reduce --topology dgx-h101", "nearest are dgx-h100"),
    ("all_reduce --topology missing.xml", "missing.xml"),
    ("nothing --topology dgx-h100", "no collective 'nothing': expected one of all_reduce"),
    ("all_reduce --topology dgx-h100 --nodes 0", "--nodes 0: expected 1 to"),
    ("all_reduce --topology dgx-h100 --gpus 9", "--gpus 9: dgx-h100 has 8"),
    ("all_reduce --topology dgx-h100 --gpus 1", "is one GPU: expected two ranks at least"),
    ("all_reduce --topology dgx-h100 --gpus x", "expected a number of GPUs such as 4, or a list such as 0,1,4,5"),
    ("all_reduce --topology dgx-h100 --nics 8", "expected such as 8x400Gb"),
    ("all_reduce --topology dgx-h100 --nics 8x400", "expected such as 8x400Gb"),
    ("all_reduce --topology dgx-h100 --nodes 2 --fabric string", "--fabric string: expected one of infiniband"),
    ("all_reduce --topology dgx-h100 --nodes 2 --network mesh", "--network mesh: expected one of rails"),
    ("all_reduce --topology dgx-h100 --nodes 2 --oversubscription 0.5", "oversubscription 0.5; expected at least 1"),
    ("all_reduce --topology dgx-h100 --bytes 8:", "--bytes 8:"),
    ("all_reduce --topology cpu-2s", "has no GPUs"),
    ("all_reduce --topology dgx-a100 --algorithm nvls", "NCCL has no nvls for all_reduce there"),
    ("all_reduce --topology dgx-a100 --algorithm rung", "no algorithm 'rung': expected one of"),
    ("all_reduce --topology dgx-a100 --protocol http", "no protocol 'http': expected one of ll,"),
    ("all_reduce --topology dgx-h100 --assume gpu", "expected such as gpu=h100-sxm"),
    ("all_reduce --topology dgx-h100 --json /nowhere/x.json", "no such folder to write to"),
]


@pytest.mark.parametrize(("words", "expected"), MISTAKES)
def test_a_mistake_is_one_line(ringtree: Ringtree, words: str, expected: str) -> None:
    got = ringtree("plan", *words.split())
    assert got.code != 0 and got.out == ""
    assert expected in got.err and got.err.count("\n") == 1
