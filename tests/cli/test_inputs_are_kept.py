"""What a command reads it does not write over, whichever options name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Ringtree

TABLE = "# collective: all_reduce\n# nranks: 2\nsize,count,type,time\n1024,256,float,30\n"
PAIR = "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 0\n}\nrank 1 {\nl1: recv 8b from 0 tag 0\n}\n"


@pytest.fixture
def folder(ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    ringtree("export", "ring", "ring.xml", "-n", "2")
    ringtree("topo", "show", "dgx-h100", "--json", "machine.json")
    Path("run.log").write_text(TABLE)
    Path("pair.goal").write_text(PAIR)
    Path("groups.json").write_text('{"1": [0, 1]}')
    ringtree("simulate", "ring", "-n", "3", "--bytes", "8", "--chakra", "it")
    return tmp_path


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
    ],
)
def test_a_file_that_is_read_is_not_written_over(ringtree: Ringtree, folder: Path, words: str) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    got = ringtree(*words.split())
    assert got.code == 1 and got.out == "" and got.err.count("\n") == 1
    assert "is read or written by this command already; expected another file to write to" in got.err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
