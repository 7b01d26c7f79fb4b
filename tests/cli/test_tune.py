"""`ringtree tune` measures this machine for real, and calls are planned by the file it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ringtree
from ringtree.bench.machine import usable_cores
from ringtree.cli import main
from ringtree.cli.tune import usual_ranks
from ringtree.machines.detect.cpus import numa_nodes
from ringtree.machines.measured import copies_table
from ringtree.machines.measured.copies_table import CopyTable
from ringtree.machines.sysfs import Sysfs
from ringtree.price import BUILT_IN
from ringtree.runtime import tuned
from ringtree.runtime.engines import shm
from ringtree.runtime.processor import cores
from ringtree.topology import load
from tests.machines.measured.tables import measured, state
from tests.machines.sysfs_trees import SysTree

QUICK = ["tune", "-n", "2", "--seconds", "0.05", "--maxbytes", "64K"]


def source(comm: ringtree.Communicator) -> str:
    return comm.chosen("all_reduce", 1 << 18).why


def test_a_machine_is_measured_and_planned_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(tuned.VARIABLE, raising=False)
    if usable_cores() < cores():
        pytest.skip("this process may not use all cores")
    assert main(QUICK) == 0
    out, err = capsys.readouterr()
    path = tmp_path / "ringtree" / "machine.json"
    assert f"written to {path}" in out and not err
    assert all(unit in out for unit in ("ns", "GB/s", "KiB", "median"))
    found = tuned.read(path)
    assert found.ranks == (2,) and load(path).ranks == 2
    assert found.parameters != BUILT_IN and found.parameters.call_s > 0 < found.parameters.copy_Bps[0]
    whys = ringtree.spawn(source, 2)
    assert all(f"measured on {found.date}" in why for why in whys), (whys, found.date)


def test_a_named_file_is_not_the_usual_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "here.json"
    path.write_text("kept until the new one is whole")
    assert main([*QUICK, "--output", str(path)]) == 0
    assert json.loads(path.read_text())["tuned"]["machine"]["cores"] == os.cpu_count()
    out = capsys.readouterr().out
    assert "init() reads it if RINGTREE_TOPOLOGY is set to it" in out
    assert ("NUMA" in out) <= (len(numa_nodes(Sysfs(Path("/")))) > 1)


def test_the_file_is_good_where_little_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "here.json"
    assert main([*QUICK[:-1], "16M", "--output", str(path)]) == 0
    assert "no algorithms measured against each other, as --seconds 0.05 were over" in capsys.readouterr().out
    found = tuned.read(path).parameters
    assert len(found.corrections) == 0 and found != BUILT_IN


def test_figures_are_printed_where_they_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--output", "/dev/full"]) == 1
    out, err = capsys.readouterr()
    assert "error of predicted times" in out and "written to" not in out
    assert "/dev/full: No space left on device" in err and err.count("\n") == 1


@pytest.fixture
def one_core() -> Iterator[None]:
    """This process on one core of several."""
    usable = os.sched_getaffinity(0)
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one core")
    os.sched_setaffinity(0, {min(usable)})
    yield
    os.sched_setaffinity(0, usable)


def test_fewer_cores_than_there_are_make_no_usual_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, one_core: None
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(tuned.VARIABLE, raising=False)
    assert main(QUICK) == 1
    err = capsys.readouterr().err
    assert f"this process may use 1 of {os.cpu_count()} cores; expected all, or --output FILE" in err
    assert err.count("\n") == 1 and not (tmp_path / "ringtree").exists()
    assert main([*QUICK, "--output", str(tmp_path / "here.json")]) == 0
    assert f"measured on 1 of {os.cpu_count()} cores, as" in capsys.readouterr().out


def test_a_launchers_binding_does_not_count(tmp_path: Path) -> None:
    """That of `ringtree run`, which gives each rank a core."""
    if len(os.sched_getaffinity(0)) < max(os.cpu_count() or 1, 2):
        pytest.skip("this process may not use several cores, and all")
    path = tmp_path / "here.json"
    words = ["run", "-n", "2", sys.executable, "-m", "ringtree.cli", *QUICK, "--output", str(path)]
    done = subprocess.run([sys.executable, "-m", "ringtree.cli", *words], capture_output=True, text=True, check=True)
    assert f"[0] {os.cpu_count()} cores of " in done.stdout and "as this process may" not in done.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-n", "1"], "-n/--ranks 1: expected 2 to 64 ranks"),
        (["-n", "2,1000"], "-n/--ranks 2,1000: expected 2 to 64 ranks"),
        (["--seconds", "0"], "--seconds 0: expected more than 0"),
        (["--seconds", "nan"], "--seconds nan: expected more than 0"),
        (["--maxbytes", "1"], "--maxbytes 1: expected 8 bytes at least"),
        (["--output", "no/such/folder/f.json"], "no such folder to write to"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *words]) != 0
    err = capsys.readouterr().err
    assert why in err and err.count("\n") == 1


def test_ranks_are_measured_on_several_nodes_where_there_are_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A made-up machine, whose first usable core is on another node than the rest."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("this process may use one core alone")
    tree = SysTree(tmp_path / "sys")
    tree.write("sys/devices/system/node/online", "0-1")
    tree.node(0, range(usable[0] + 1), 0, "10 21")
    tree.node(1, range(usable[0] + 1, usable[-1] + 1), 1, "21 10")
    path = tmp_path / "here.json"
    monkeypatch.setattr(shm, "THIS", str(tree.root))
    assert main([*QUICK, "--output", str(path)]) == 0
    assert "between 2 NUMA nodes: a message " in capsys.readouterr().out
    assert tuned.read(path).parameters.across_s != BUILT_IN.across_s


@pytest.mark.parametrize(("cores", "ranks"), [(1, [2, 3]), (2, [2, 4]), (4, [2, 4, 8]), (64, [2, 8, 16])])
def test_the_default_numbers_of_ranks(cores: int, ranks: list[int]) -> None:
    assert usual_ranks(cores) == ranks
    assert usual_ranks(usable_cores())


def copies_of_a_machine(path: Path) -> CopyTable:
    """A machine of which one GPU's link has half its lanes, as a file of --json."""
    table = measured("dgx-h100", lambda t, rate: rate / 2 if "gpu3" in (t.source, t.target) else rate)
    table = replace(table, states={"gpu3": state(table.machine, "gpu3", width=8)})
    path.write_text(copies_table.text(table))
    return table


def test_copies_of_another_machine_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies, machine = tmp_path / "copies.json", tmp_path / "devices.json"
    table = copies_of_a_machine(copies)
    assert main(["tune", "--from", str(copies), "--output", str(machine), "--json", str(tmp_path / "again.json")]) == 0
    out, err = capsys.readouterr()
    assert "gpu3: its PCIe link has x8 of x16 lanes: 27.6 GB/s from or to the host, of 57.6 GB/s" in out and not err
    assert "with peer access" in out and "without peer access" in out and "a copy of 8 B: 4 µs to 4 µs" in out
    assert copies_table.read(tmp_path / "again.json").rows == table.rows
    assert main(["topo", "show", str(machine)]) == 0
    assert "gpu3: its PCIe link has x8 of x16" in capsys.readouterr().out
    assert main(["plan", "all_reduce", "--topology", str(machine), "--bytes", "64M"]) == 0


def test_a_file_of_copies_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copies = tmp_path / "copies.json"
    copies_of_a_machine(copies)
    assert main(["tune", "--from", str(copies), "--output", str(copies)]) == 1
    assert str(copies) in capsys.readouterr().err and len(copies_table.read(copies).rows) > 100


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--device", "cuda", "-n", "2"], "-n/--ranks is for ranks on CPUs"),
        (["--device", "cuda", "--maxbytes", "8"], "--maxbytes 8: expected 1M to 4G"),
        (["--json", "copies.json"], "--json is for copies between devices"),
    ],
)
def test_options_that_make_no_sense_beside_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], why: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["tune", *words]) == 1
    out, err = capsys.readouterr()
    assert why in err and err.count("\n") == 1 and not out


def test_without_a_driver_it_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("there is a driver here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["tune", "--device", "cuda"]) == 1
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1 and not (tmp_path / "ringtree" / "devices.json").exists()
    assert "pip install cuda-bindings" in err or "no CUDA driver: libcuda.so.1 cannot be loaded; expected" in err
