"""A file that a command is to write is never one that it reads, nor two things at once."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from ringtree.cli.arguments.destination import check_destination
from ringtree.ir.trace import Event, Trace
from tests.cli.conftest import Ringtree

ROW = {"collective": "all_reduce", "ranks": 2, "nbytes": 8, "dtype": "float32", "op": "sum", "time_us": 1.5}


@pytest.mark.parametrize(
    "words",
    [
        "show plan.txt --html ./plan.txt",
        "show trace.json --html linked.json",
        "compare-trace trace.json trace.json --html trace.json",
        "report rows.json --html rows.json",
        "simulate plan.txt --bytes 8 --trace plan.txt",
        "simulate ring -n 2 --bytes 8 --topology trace:trace.json --html trace.json",
        "simulate ring -n 2 --bytes 8 --trace new.json --html ./new.json",
        "bench all_reduce --json new.json --trace ./new.json",
        "run -n 2 --trace plan.txt plan.txt",
    ],
)
def test_a_commands_input_is_not_lost(
    ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    from ringtree.formats import chrome

    monkeypatch.chdir(tmp_path)
    Path("plan.txt").write_text("schedule mine broadcast: 2 ranks, 1 chunks, root 0\nonce: 0 data[0] -> 1\n")
    kinds = [Event.SEND, Event.WAIT]
    chrome.write(Trace.of(2, [0, 1], kinds, [0, 0], [1e-6, 1e-6], nbytes=8, peer=[1, 0]), "trace.json")
    Path("linked.json").symlink_to("trace.json")
    Path("rows.json").write_text(json.dumps({"machine": {}, "rows": [ROW]}))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    got = ringtree(*words.split())
    assert got.code == 1 and got.err.endswith("already; expected another file to write to\n"), got
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_disk_without_room_is_refused_before_work_begins(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))  # of a full disk, whose empty files have room
    try:
        with pytest.raises(ValueError, match=r"new\.json cannot be written: File too large"):
            check_destination(tmp_path / "new.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_two_outputs_may_go_nowhere(ringtree: Ringtree) -> None:
    got = ringtree("simulate", "ring", "-n", "2", "--bytes", "8", "--trace", "/dev/null", "--html", "/dev/null")
    assert got.code == 0 and got.err == ""


@pytest.mark.parametrize("words", ["train --steps 1 --checkpoint", "train --steps 1 --json", "doctor --html"])
def test_an_empty_path_is_not_the_working_folder(
    ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ringtree(*words.split(), "")
    option = words.split()[-1]
    assert code == 2 and not out
    assert f"argument {option}: an empty path; expected the name of a file or folder to write to" in err
