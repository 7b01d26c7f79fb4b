"""`ringtree explain`: output, files, and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.files import machine_json
from tests.nccl.test_deduced import SLOW, log_of

Ringtree = Callable[..., Any]

HEAD = """\
#  Rank  0 Group  0 Pid   4711 on     node-a device  0 [0000:1b:00] Tesla V100-SXM2-16GB
#  Rank  1 Group  0 Pid   4712 on     node-a device  3 [0000:43:00] Tesla V100-SXM2-16GB
# Collective test starting: all_reduce_perf
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
"""


def written(tmp_path: Path, GBps: float, *preamble: str) -> Path:
    """A log of two GPUs at that plateau."""
    rows = [(8, 9.0), (1024, 9.0), *((n, n / GBps / 1e3) for n in (1 << 26, 1 << 28, 1 << 30))]
    lines = [f"{n} {n // 4} float sum -1 {us:.2f} 0.00 0.00 0 {us:.2f} 0.00 0.00 0" for n, us in rows]
    path = tmp_path / "run.log"
    path.write_text(HEAD + "\n".join((*preamble, *lines)) + "\n")
    return path


def test_a_healthy_log_is_laid_beside_the_prediction(ringtree: Ringtree, tmp_path: Path) -> None:
    result = ringtree("explain", str(written(tmp_path, 34.0)), "--topology", "dgx-1-v100")
    assert result.code == 0 and result.err == ""
    assert "# nodes: 1, from the log's hosts" in result.out
    assert "# GPUs of each node: 0, 3" in result.out
    assert "no fault found" in result.out
    head = next(line for line in result.out.splitlines() if "size (B)" in line)
    assert " measured (us) measured busbw" in head and " predicted busbw of predicted" in head
    assert "of predicted: measured busbw over predicted busbw" in result.out
    assert "large sizes: 34 GB/s busbw measured" in result.out


def test_the_release_is_the_logs_unless_it_is_given(ringtree: Ringtree, tmp_path: Path) -> None:
    log = written(tmp_path, 34.0, "NCCL version 2.16.5+cuda12.0")
    read = ringtree("explain", str(log), "--topology", "dgx-1-v100").out
    assert "2 GPUs a node, NCCL 2.16" in read and "# NCCL 2.16, from the log" in read
    given = ringtree("explain", str(log), "--topology", "dgx-1-v100", "--nccl", "2.28").out
    assert "2 GPUs a node, NCCL 2.28" in given and "from the log's hosts" in given and "NCCL 2.16" not in given


def test_a_log_with_wrong_results_is_no_healthy_one(ringtree: Ringtree, tmp_path: Path) -> None:
    log = written(tmp_path, 34.0)
    *rows, last = log.read_text().rstrip("\n").split("\n")
    log.write_text("\n".join([*rows, " ".join([*last.split()[:-1], "5"])]) + "\n")
    out = ringtree("explain", str(log), "--topology", "dgx-1-v100").out
    assert "no fault of speed found, but wrong results" in out and "WRONG RESULTS: 5 wrong elements" in out


def test_the_gpu_that_ran_is_the_one_that_is_priced(ringtree: Ringtree, tmp_path: Path) -> None:
    """One GPU of each of two hosts, by number: not the first."""
    log, why = written(tmp_path, 34.0), tmp_path / "why.json"
    log.write_text(log.read_text().replace("node-a device  0", "node-b device  3"))
    result = ringtree("explain", str(log), "--topology", "dgx-h100", "--json", str(why))
    assert result.code == 0 and "# GPUs of each node: 3 (assumed" in result.out
    found = ringtree("plan", "all_reduce", "--topology", "dgx-h100", "--nodes", "2", "--gpus", "3,", "--bytes", "1G",
                     "--json", str(tmp_path / "plan.json"))  # fmt: skip
    assert found.code == 0
    cuts = [json.loads(file.read_text())["cut"] for file in (why, tmp_path / "plan.json")]
    assert cuts[0]["links"] == cuts[1]["links"]


@pytest.mark.parametrize(
    ("gpus", "hosts", "words"),
    [
        (72, 18, ["# nodes: 1, from the log's hosts", "gb200-nvl72: 72 GPUs"]),
        (8, 4, ["# nodes: 2, from the log's hosts", "gb200-nvl72 x2: 8 GPUs a node"]),
        (72, 2, ["# nodes: 1, from the log's hosts", "# GPUs of each node: 0, 1, 2, 3, 4, 5, 6, 7 (assumed"]),
    ],
)
def test_the_trays_of_a_rack_are_one_node(
    ringtree: Ringtree, tmp_path: Path, gpus: int, hosts: int, words: list[str]
) -> None:
    """Trays of four GPUs, of a rack of 18 or of two."""
    rack = tmp_path / "rack.json"
    machine_json.write(machine("gb200-nvl72").part(range(gpus)), rack)
    head = "".join(
        f"#  Rank {4 * tray + gpu} Group 0 Pid 4711 on tray-{tray} device {gpu} [0008:01:00] NVIDIA GB200\n"
        for tray in range(hosts)
        for gpu in range(4)
    )
    log = written(tmp_path, 800.0)
    log.write_text(head + "#\n" + "".join(HEAD.splitlines(keepends=True)[2:]) + log.read_text().removeprefix(HEAD))
    out = ringtree("explain", str(log), "--topology", str(rack)).out
    for text in words:
        assert text in out


def test_explain_goes_by_the_cluster_that_fits(ringtree: Ringtree, tmp_path: Path) -> None:
    path = str(log_of(tmp_path, 129, SLOW))
    taken = ringtree("explain", path, "--topology", "gh200x4", "--nodes", "32")
    assert "all_reduce over 128 ranks" in taken.out
    refused = ringtree("explain", path, "--topology", "gh200x4", "--nodes", "30")
    assert refused.code == 1 and "ranks, by busbw over algbw; expected 120, as gh200x4 x30 has" in refused.err


def test_a_fault_is_named_with_evidence_and_remedy(ringtree: Ringtree, tmp_path: Path) -> None:
    line = "node-a:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1."
    log, why = written(tmp_path, 9.0, line), tmp_path / "why.json"
    result = ringtree("explain", str(log), "--topology", "dgx-1-v100", "--json", str(why))
    assert result.code == 0
    for words in (
        "likely cause: P2P is off",
        "evidence at large sizes: 9 GB/s busbw measured", "NCCL_P2P_DISABLE=1 was set",
                  "to confirm:", "remedy: unset NCCL_P2P_DISABLE"):  # fmt: skip
        assert words in result.out
    record = json.loads(why.read_text())
    assert (record["verdict"], [c["key"] for c in record["causes"]]) == ("likely cause", ["p2p_off"])
    assert (record["cluster"]["machine"], record["cluster"]["gpus_per_node"]) == ("dgx-1-v100", 2)
    assert record["cut"]["links"] and record["rows"][-1]["bound_bottleneck"] == record["cut"]["words"]
    assert record["at_length"]["measured_busbw_GBps"] == pytest.approx(9.0, rel=1e-3)
    assert [row["nbytes"] for row in record["rows"]] == [8, 1024, 1 << 26, 1 << 28, 1 << 30]


@pytest.mark.parametrize(("share", "words"), [
    (0.15, "no candidate explains it"),
    (1.0, ""),
])  # fmt: skip
def test_a_log_far_below_a_wide_interval_is_no_healthy_one(
    ringtree: Ringtree, tmp_path: Path, share: float, words: str
) -> None:
    """Two GPUs that reach one another through the host's memory, at 15.4 GB/s by the model."""
    log, why = written(tmp_path, 15.4 * share), tmp_path / "why.json"
    result = ringtree("explain", str(log), "--topology", "rtx4090-pcie", "--json", str(why))
    assert result.code == 0
    assert ("far below the prediction: " in result.out) is bool(words) is not ("no fault found" in result.out)
    assert words in result.out and (json.loads(why.read_text())["verdict"] == "far below the prediction") is bool(words)


def test_an_undecided_log_names_the_next_test(ringtree: Ringtree, tmp_path: Path) -> None:
    result = ringtree("explain", str(written(tmp_path, 9.0)), "--topology", "dgx-1-v100")
    assert "undecided: slower than predicted, and 2 causes fit" in result.out
    assert result.out.count("to confirm:") == 2
    assert "run the test again with NCCL_DEBUG=INFO" in result.out


@pytest.mark.parametrize(("time_share", "algbw", "larger"), [(1, 0.0, False), (0.01, 0.0, True), (0.01, 34.0, False)])
def test_a_row_that_contradicts_itself_is_no_larger_machines(
    ringtree: Ringtree, tmp_path: Path, time_share: float, algbw: float, larger: bool
) -> None:
    log = written(tmp_path, 34.0)
    us = (1 << 30) / 34.0 / 1e3 * time_share
    *rows, _ = log.read_text().rstrip("\n").split("\n")
    side = f"{us:.2f} {algbw} {algbw} 0"
    log.write_text("\n".join([*rows, f"{1 << 30} {1 << 28} float sum -1 {side} {side}"]) + "\n")
    out = ringtree("explain", str(log), "--topology", "dgx-1-v100").out
    assert ("the log is from a larger machine" in out) is larger
    assert ("note: time and algbw contradict each other, the time counts: line 9 (" in out) is bool(algbw)


@pytest.mark.parametrize("GBps", [34.0, 9.0, 0.3, 80.0])
def test_the_printed_verdict_is_the_one_in_json(ringtree: Ringtree, tmp_path: Path, GBps: float) -> None:
    why = tmp_path / "why.json"
    result = ringtree("explain", str(written(tmp_path, GBps)), "--topology", "dgx-1-v100", "--json", str(why))
    verdict = json.loads(why.read_text())["verdict"]
    assert any(line.startswith(verdict) for line in result.out.splitlines()), verdict


def test_a_faster_log_is_reported_with_reasons(ringtree: Ringtree, tmp_path: Path) -> None:
    why = tmp_path / "why.json"
    result = ringtree("explain", str(written(tmp_path, 80.0)), "--topology", "dgx-1-v100", "--json", str(why))
    assert "faster than predicted: 2" in result.out and "no fault found" not in result.out
    assert "possible: another machine" in result.out and "in the interval: 2 of 5 sizes, 3 faster" in result.out
    record = json.loads(why.read_text())
    assert (record["verdict"], record["causes"]) == ("faster than predicted", [])
    assert "machine" in {r["key"] for r in record["reasons"]}
    assert all(row["low_us"] < row["predicted_us"] < row["high_us"] for row in record["rows"])


@pytest.mark.parametrize(("words", "expected"), [
    ((), "no --topology: expected a name"),
    (("--topology", "dgx-9"), "dgx-9"),
    (("--topology", "dgx-1-v100", "--nodes", "3"), "has 2 ranks; expected 24"),
    (("--topology", "dgx-1-v100", "--nodes", "0"), "--nodes 0: expected"),
    (("--topology", "dgx-1-v100", "--gpus", "9"), "--gpus 9: dgx-1-v100 has 8"),
    (("--topology", "dgx-1-v100", "--collective", "dance"), "dance"),
    (("--topology", "dgx-1-v100", "--json", "/nowhere/x.json"), "no such folder"),
])  # fmt: skip
def test_mistakes_are_one_line(ringtree: Ringtree, tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    result = ringtree("explain", str(written(tmp_path, 9.0)), *words)
    assert result.code == 1 and result.out == ""
    assert expected in result.err and result.err.count("\n") == 1


def test_a_file_that_is_no_log_leaves_the_json_as_it_was(ringtree: Ringtree, tmp_path: Path) -> None:
    log, why = tmp_path / "run.log", tmp_path / "why.json"
    log.write_bytes(b"\x7fELF\0\0")
    why.write_text("old")
    result = ringtree("explain", str(log), "--topology", "dgx-1-v100", "--json", str(why))
    assert (result.code, why.read_text()) == (1, "old")
    assert "expected the output of nccl-tests" in result.err
    result = ringtree("explain", str(tmp_path / "none"), "--topology", "dgx-1-v100")
    assert "no such file" in result.err


def test_nodes_are_the_logs_hosts(ringtree: Ringtree) -> None:
    """Eight ranks would fit into one machine of eight GPUs."""
    log = Path(__file__).parents[2] / "examples/slow.log"
    out = ringtree("explain", str(log), "--topology", "dgx-a100").out
    assert "# nodes: 2, from the log's hosts" in out and "# GPUs of each node: 0, 1, 2, 3" in out
