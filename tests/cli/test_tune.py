"""`ringtree tune` measures this machine for real, and calls are planned by the file it writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import ringtree
from ringtree.bench.machine import usable_cores
from ringtree.cli import main
from ringtree.cli.tune import usual_ranks
from ringtree.price import BUILT_IN
from ringtree.runtime import tuned
from ringtree.topology import load

QUICK = ["tune", "-n", "2", "--seconds", "0.3", "--maxbytes", "256K"]


def source(comm: ringtree.Communicator) -> str:
    return comm.chosen("all_reduce", 1 << 18).why


def test_a_machine_is_measured_and_planned_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv(tuned.VARIABLE, raising=False)
    assert main(QUICK) == 0
    out, err = capsys.readouterr()
    path = tmp_path / "ringtree" / "machine.json"
    assert f"written to {path}" in out and not err
    assert all(unit in out for unit in ("ns", "GB/s", "KiB", "median"))
    found = tuned.read(path)
    assert found.ranks == (2,) and load(path).ranks == 2
    assert found.parameters != BUILT_IN and found.parameters.call_s > 0 < found.parameters.copy_Bps[0]
    whys = ringtree.spawn(source, 2)
    assert all(why.endswith(f"measured on {found.date}") for why in whys), (whys, found.date)


def test_a_named_file_is_not_the_usual_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "here.json"
    path.write_text("kept until the new one is whole")
    assert main([*QUICK, "--output", str(path)]) == 0
    assert json.loads(path.read_text())["tuned"]["machine"]["cores"] == os.cpu_count()
    assert "init() reads it if RINGTREE_TOPOLOGY is set to it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-n", "1"], "-n 1: expected 2 to 64 ranks"),
        (["-n", "2,1000"], "-n 2,1000: expected 2 to 64 ranks"),
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


@pytest.mark.parametrize(("cores", "ranks"), [(1, [2, 3]), (2, [2, 4]), (4, [2, 4, 8]), (64, [2, 8, 16])])
def test_the_default_numbers_of_ranks(cores: int, ranks: list[int]) -> None:
    assert usual_ranks(cores) == ranks
    assert usual_ranks(usable_cores())
