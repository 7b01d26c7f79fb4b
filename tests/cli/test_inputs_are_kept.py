"""What a command reads or writes it does not write over, whichever options name it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ringtree.algorithms import registry
from ringtree.cli import main
from ringtree.simulate.device.constants import ConstantsFile, DeviceConstants, dumps
from tests.algorithms.own_files import write
from tests.cli.conftest import Ringtree

TABLE = "# collective: all_reduce\n# nranks: 2\nsize,count,type,time\n1024,256,float,30\n"
PAIR = "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 0\n}\nrank 1 {\nl1: recv 8b from 0 tag 0\n}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that are read, made once."""
    there = tmp_path_factory.mktemp("made")
    write(there)  # mine.py
    for name in ("ring.xml", "other.xml"):
        assert main(["export", "ring", str(there / name), "-n", "2"]) == 0
    assert main(["topo", "show", "dgx-h100", "--json", str(there / "machine.json")]) == 0
    (there / "run.log").write_text(TABLE)
    (there / "pair.goal").write_text(PAIR)
    (there / "hosts").write_text("localhost slots=1\n")
    (there / "groups.json").write_text('{"1": [0, 1]}')
    assert main(["simulate", "ring", "-n", "3", "--bytes", "8", "--chakra", str(there / "it")]) == 0
    trace = ["--topology", "direct", "--trace", str(there / "trace.json")]
    assert main(["simulate", str(there / "ring.xml"), "--bytes", "8", *trace]) == 0
    (there / "constants.json").write_text(dumps(ConstantsFile({"Simple": DeviceConstants(1e-6, 1e-6, 1e9)})))
    return there


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with these files, which is the current one."""
    folder = shutil.copytree(made, tmp_path / "folder")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(registry, "_own", {})
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        "bench --schedule ring.xml --json ring.xml -b 8 -e 8",
        "bench --schedule ring.xml --trace ring.xml -b 8 -e 8",
        "plan all_reduce --topology machine.json --bytes 1M --json machine.json",
        "plan all_reduce --topology machine.json --nodes 2 --bytes 1M --export-tuner machine.json",
        "explain run.log --topology machine.json --json machine.json",
        "simulate it.0.et --trace it.2.et",
        "simulate it --trace it.1.et",
        "simulate it --groups groups.json --trace groups.json",
        "simulate ring.xml --topology machine.json --fit run.log --out machine.json",
        "simulate ring.xml --topology machine.json --fit other.xml=run.log --out other.xml",
        "simulate ring.xml --topology trace:trace.json --bytes 8 --html trace.json",
        "simulate ring.xml --topology machine.json --constants constants.json --bytes 8 --trace machine.json",
        "simulate mine.py:zigzag -n 4 --bytes 8 --trace mine.py",
        "simulate ring -n 4 --bytes 8 --with mine.py:zigzag:broadcast:8 --trace mine.py",
        "simulate it --expand mine.py:zigzag --trace mine.py",
        "sweep all_reduce --topology machine.json --bytes 8 --json machine.json",
        "sweep broadcast --topology switch --bytes 8 --algorithm ring,mine.py:zigzag --html mine.py",
        "bench broadcast --algorithm mine.py:zigzag --json mine.py -b 8 -e 8",
        "export ./mine.py:zigzag mine.py --format text -n 4",
        "run -n 2 --algorithm mine.py:zigzag --trace mine.py true",
        "ps --hosts hosts --json hosts",
        "doctor --hosts hosts --html hosts",
        "run --hosts hosts --trace hosts true",
        "show mine.py:zigzag -n 4 --html mine.py",
        "show ring.xml --topology trace:trace.json --html trace.json",
    ],
)
def test_a_file_that_is_read_is_not_written_over(ringtree: Ringtree, folder: Path, words: str) -> None:
    before = contents(folder)
    got = ringtree(*words.split())
    assert got.code == 1 and got.out == "" and got.err.count("\n") == 1
    assert "is read or written by this command already; expected another file to write to" in got.err
    assert contents(folder) == before


@pytest.mark.parametrize(
    "words",
    [
        "bench all_reduce --json o --trace ./o -b 8 -e 8",
        "plan all_reduce --topology dgx-h100 --nodes 2 --bytes 1M --json o --export-graph o",
        "plan all_reduce --topology dgx-h100 --nodes 2 --bytes 1M --json o --export-tuner o",
        "plan all_reduce --topology dgx-h100 --nodes 2 --bytes 1M --export-graph o --export-tuner o",
        "simulate ring -n 4 --topology direct --bytes 8 --trace o --html o",
        "simulate ring -n 4 --topology direct --bytes 8 --trace o --goal o",
        "simulate ring -n 4 --topology direct --bytes 8 --goal o.0.et --chakra o",
        "simulate ring -n 4 --topology direct --bytes 8 --trace o.3.et --chakra o",
        "simulate ring.xml --topology direct --constants constants.json --bytes 8 --trace o --html o",
        "sweep all_reduce --topology switch -n 4 --bytes 8 --json o --html o",
        "topo show dgx-h100 --json o --html o",
        "topo show dgx-h100 --json o --xml o",
        "topo detect --json o --xml o",
        "tune --device cuda --output o --json o",
        "train --dp 2 --json o --html o",
        "train --dp 2 --trace o --picture o",
        "train --dp 2 --checkpoint o --json o",
        "train --dp 2 --checkpoint o --html ../{folder}/o",
        "train --dp 2 --checkpoint link/c --trace c",
        "train --dp 2 --checkpoint o/c --picture o",
        "train --dp 2 --elastic --checkpoint o --json o",
    ],
)
def test_two_outputs_are_not_written_to_one_path(ringtree: Ringtree, folder: Path, words: str) -> None:
    (folder / "link").symlink_to(folder)
    before = sorted(folder.iterdir()), contents(folder)
    got = ringtree(*words.format(folder=folder.name).split())
    assert got.code == 1 and got.out == "" and got.err.count("\n") == 1
    assert re.search(r"(read or written|written) by this command.*; expected another (file|folder)", got.err), got.err
    assert (sorted(folder.iterdir()), contents(folder)) == before
