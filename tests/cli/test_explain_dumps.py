"""`ringtree explain` of flight recorders' dumps: its words, its JSON, and mistakes."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ringtree
from tests.formats.flight.recorded import document, entry

GOOD = [entry("all_reduce", 1), entry("broadcast", 2)]


def written(folder: Path, *ranks: list[dict[str, Any]]) -> list[str]:
    paths = [folder / f"nccl_trace_rank_{rank}" for rank in range(len(ranks))]
    for path, mine in zip(paths, ranks, strict=True):
        path.write_bytes(pickle.dumps(document(GOOD + mine, len(ranks), {}), 2))
    return [str(path) for path in paths]


def test_the_rank_that_never_came(ringtree: Ringtree, tmp_path: Path) -> None:
    waits = [entry("all_reduce", 3, "started", at_s=5)]
    files, why = written(tmp_path, waits, [], waits), tmp_path / "why.json"
    for words in (files, [str(tmp_path)]):
        result = ringtree("explain", *words, "--json", str(why))
        assert (result.code, result.err) == (0, "")
        assert result.out.splitlines() == [
            "# dumps of ranks 0-2 by NCCL 2.26.2; groups with collectives: 1",
            "",
            "first divergence: rank 1 never came to all_reduce(float32 [8]), sequence number 3 of group default_pg",
            "  ranks 0, 2 wait for rank 1 since 2023-11-14 22:13:25.000 UTC, with a timeout of 600 s",
            "  rank 1's last call in this group: broadcast(float32 [8]), number 2, ended",
        ]
    (first,) = json.loads(why.read_text())["first"]
    assert (first["kind"], first["culprits"], first["waiting"], first["number"]) == ("missing", [1], [0, 2], 3)


def test_a_mismatch_says_who_called_what_and_where(ringtree: Ringtree, tmp_path: Path) -> None:
    frames = [
        {"name": "broadcast", "filename": "/x/torch/distributed/distributed_c10d.py", "line": 3},
        {"name": "step", "filename": "train.py", "line": 40},
    ]
    reduces = [entry("all_reduce", 3, "started")]
    result = ringtree(
        "explain", *written(tmp_path, reduces, [entry("broadcast", 3, "started", frames=frames)], reduces)
    )
    for words in (
        "first divergence: rank 1 called broadcast(float32 [8]) and ranks 0, 2 called all_reduce(float32 [8])"
        " as sequence number 3 of group default_pg",
        "rank 1's call: at step, train.py:40", "rank 0's call: at step, train.py:12",
    ):  # fmt: skip
        assert words in result.out


def test_where_the_rank_is_that_did_not_come(ringtree: Ringtree, tmp_path: Path) -> None:
    files = written(tmp_path, [entry("all_reduce", 3, "started")], [])
    names = ("sleep, /x/torch/distributed/y.py", "wait, data.py", "load, data.py", "main, train.py")
    frames = [dict(zip(("name", "filename"), name.split(", "), strict=True), line=7) for name in names]
    stacks = [{"thread_name": "other", "frames": frames[:1]}, {"thread_name": "MainThread", "frames": frames}]
    Path(files[1]).write_bytes(pickle.dumps({**document(GOOD, 2, {}), "stacks": stacks}))
    shown = [line.strip() for line in ringtree("explain", *files).out.splitlines() if line.startswith("    at ")]
    assert shown == ["at wait, data.py:7", "at load, data.py:7", "at main, train.py:7"]


def test_a_good_run(ringtree: Ringtree, tmp_path: Path) -> None:
    result = ringtree("explain", *written(tmp_path, [], []))
    assert result.code == 0 and "no rank waits: every call that was recorded has ended" in result.out


def test_a_dump_of_an_earlier_job(ringtree: Ringtree, tmp_path: Path) -> None:
    late = [entry("all_reduce", 3, "started", at_s=500)]
    files = written(tmp_path, late, late, [])
    for file in files[:2]:
        Path(file).write_bytes(pickle.dumps(document(late, 3, {})))
    assert "rank 2's dump ends before the others begin: is it of an earlier job?" in ringtree("explain", *files).out


def test_mistakes_are_one_line(ringtree: Ringtree, tmp_path: Path) -> None:
    dump, log, empty = written(tmp_path, [])[0], tmp_path / "run.log", tmp_path / "none"
    log.write_text("# nccl-tests\n")
    empty.mkdir()
    evil = tmp_path / "evil_rank_0"
    evil.write_bytes(b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00true\x85R.")
    os.mkfifo(pipe := tmp_path / "pipe_rank_0")
    for words, expected in {
        (dump, str(log)): "is a flight recorder's dump",
        (str(log), str(log)): "2 logs: expected one log, or dumps",
        (str(empty),): "no dumps of flight recorders in this folder",
        (str(log),): "no --topology",
        (str(evil),): "would run code (os system): refused",
        (str(pipe), "--topology", "dgx-h100"): "a pipe",
        (str(pipe), dump): "pipe_rank_0: a pipe; expected a flight recorder's dump, or a log",
        (str(tmp_path / "gone"), "--topology", "dgx-h100"): "no such file",
        (str(tmp_path / "gone"),): "gone: no such file; expected a flight recorder's dump, or a log",
        (dump, str(tmp_path / "gone")): "gone: no such file",
        (os.devnull, dump): "null: a device",
        (dump, "--json", dump): "is read or written by this command already",
    }.items():
        result = ringtree("explain", *words)
        assert result.code == 1 and result.out == ""
        assert expected in result.err and result.err.count("\n") == 1 and "internal" not in result.err


@pytest.mark.parametrize("what", ["empty", "a link to nothing", "a pipe"])
def test_a_dump_in_a_folder_that_cannot_be_read_is_no_dead_rank(ringtree: Ringtree, tmp_path: Path, what: str) -> None:
    waits = [entry("all_reduce", 3, "started")]
    files = written(tmp_path, waits, [], waits)
    (tmp_path / "folder_7").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert "rank 1 never came" in ringtree("explain", str(tmp_path)).out
    Path(files[1]).unlink()
    make = {"empty": Path.touch, "a link to nothing": lambda path: path.symlink_to("gone"), "a pipe": os.mkfifo}
    make[what](Path(files[1]))
    result = ringtree("explain", str(tmp_path))
    assert (result.code, result.out) == (1, "")
    reason = {"a link to nothing": "no such file"}.get(what, what)
    assert result.err == (
        f"ringtree explain: {files[1]}: {reason}; expected a flight recorder's dump, or a log of nccl-tests; "
        "to compare the others, name them\n"
    )
    assert "rank 1 left no dump" in ringtree("explain", files[0], files[2]).out


@pytest.mark.parametrize("torn", [False, True])
def test_a_file_named_as_the_dumps_beside_it_is_no_dead_rank(ringtree: Ringtree, tmp_path: Path, torn: bool) -> None:
    """It was packed, or has zeros where a machine went down."""
    waits = [entry("all_reduce", 3, "started")]
    files = written(tmp_path, waits, [], waits)
    (tmp_path / "rank_1.log").write_text("some other file")
    dump = Path(files[1])
    if torn:
        dump.write_bytes(bytes(dump.stat().st_size))
    else:
        dump.rename(dump := Path(f"{dump}.gz"))
        dump.write_bytes(gzip.compress(dump.read_bytes()))
    result = ringtree("explain", str(tmp_path))
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"ringtree explain: {dump} is named as the dumps beside it, and is none; to compare the others, name them\n"
    )


@pytest.mark.parametrize("protocol", [2, 5])
def test_torch_is_not_needed(
    ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it fails
    (tmp_path / "rank_0").write_bytes(pickle.dumps(document(GOOD, 1, {}), protocol))
    assert ringtree("explain", str(tmp_path / "rank_0")).code == 0
