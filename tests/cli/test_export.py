"""`ringtree export`: the file that is written, and what is refused; and what `ringtree prove` shows of a file."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ringtree.algorithms import build
from ringtree.cli.options.schedules import export
from ringtree.formats import WRITERS, NotExpressible, load, text_of
from ringtree.formats.msccl.writing import STEP_BYTES
from ringtree.formats.mscclpp.writing import RECEIVING, REDUCING, SENDING, STREAMS
from ringtree.formats.streams import Streams
from tests.cli.conftest import Ringtree
from tests.formats.plans import text


def test_the_command_knows_all_formats() -> None:
    assert tuple(WRITERS) == export.FORMATS


@pytest.mark.parametrize(("suffix", "format_name"), [(".xml", "MSCCL XML"), (".json", "MSCCL++"), (".txt", "ringtree")])
def test_a_file_by_its_suffix(suffix: str, format_name: str, ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / f"ring{suffix}"
    got = ringtree("export", "ring", str(path), "-n", "4", "--collective", "all_reduce")
    assert (got.code, got.err) == (0, "")
    assert got.out.startswith(f"{path}: ring all_reduce over 4 ranks: ")
    assert str(load(path).facts["format"]).startswith(format_name)
    again = tmp_path / "again.txt"
    assert ringtree("export", str(path), str(again)).code == 0
    assert load(again).schedule == load(path).schedule


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "ring out -n 4",
            "no suffix names no format: expected .txt (text), .xml (msccl), .json (mscclpp), or --format",
        ),
        ("binomial out.xml --collective broadcast", "MSCCL XML has no broadcast; expected one of all_reduce"),
        ("ring missing/out.xml -n 4", "no such folder to write to"),
        ("two_shot out.json -n 32 --collective all_reduce", "two_shot needs more than 16 channels of a thread block"),
        ("one_shot out.xml -n 100 --collective all_reduce", "one_shot needs more than 64 thread blocks of a gpu"),
        ("ring out.xml -n 300", "ring takes 20,272,200 bytes at least; expected at most 16,777,216: fewer ranks"),
        ("nothing out.xml", "'nothing' is neither an algorithm nor a file"),
    ],
)
def test_what_cannot_be_written_is_refused(
    words: str, message: str, ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    got = ringtree("export", *words.split())
    assert (got.code, got.out) == (1, "")
    assert message in got.err
    assert not list(tmp_path.iterdir())


def test_a_schedule_with_more_steps_than_a_file_has_room_for_is_refused_before_it_is_written() -> None:
    schedule = build("ring", "all_reduce", 300)
    began_s = time.process_time()
    with pytest.raises(NotExpressible, match="20,272,200 bytes at least"):
        text_of(schedule, "msccl")
    assert time.process_time() - began_s < 5  # written, it takes 15 s


@pytest.mark.parametrize("ranks", [4, 32])
def test_the_least_that_is_known_beforehand_is_not_more_than_what_is_written(ranks: int) -> None:
    schedule = build("ring", "all_reduce", ranks)
    lines = [line for line in text_of(schedule, "msccl").splitlines() if "<step" in line]
    assert min(map(len, lines)) + 1 >= STEP_BYTES and len(lines) >= Streams(schedule).received().sum()
    gpus = json.loads(text_of(schedule, "mscclpp"))["gpus"]
    most = max(len(block["ops"]) for gpu in gpus for block in gpu["threadblocks"])
    assert min(Streams(schedule).most_operations(n, SENDING, RECEIVING, REDUCING) for n in STREAMS) <= most


def test_a_file_is_not_written_over_itself(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "ring.xml"
    ringtree("export", "ring", str(path), "-n", "4")
    assert "is read or written by this command already" in ringtree("export", str(path), str(path)).err


def test_what_a_file_has_is_shown_with_its_proof(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    blocks = [[[f"ppkt o{r} > {1 - r}.s{r}"], [f"upkt s{1 - r} > o{1 - r}"]] for r in (0, 1)]
    path.write_text(text(blocks, 2, "allgather", scratch=2, use_double_scratch_buffer=True))
    lines = ringtree("prove", str(path)).out.splitlines()
    assert lines[2].startswith("format MSCCL++ execution plan; collective allgather; protocol Simple; inplace True")
    assert lines[3].startswith("one call must not run into the next: rank ")
    assert lines[3].endswith("its two halves of scratch take turns")


def _all_at_once(chunks: int) -> str:
    """Two ranks that send each other so many messages before they receive any; in MSCCL XML by eight streams."""
    moves = "; ".join(f"{r} data[{r * chunks + c}] -> {1 - r}" for r in (0, 1) for c in range(chunks))
    return f"schedule hand all_gather: 2 ranks, {2 * chunks} chunks\nonce:\n  round 0: {moves}\n"


def test_a_schedule_for_which_msccls_connections_have_no_room_is_refused(ringtree: Ringtree, tmp_path: Path) -> None:
    source, made = tmp_path / "hand.txt", tmp_path / "hand.xml"
    source.write_text(_all_at_once(16))
    assert ringtree("export", str(source), str(made)).out.endswith("slots needed: 2\n")
    made.unlink()
    source.write_text(_all_at_once(24))
    got = ringtree("export", str(source), str(made))
    assert (got.code, got.out) == (1, "") and not made.exists()
    room = "a connection must hold 3 messages, and Simple has room for 2"
    assert f"hand: {room}; expected an MSCCL++ plan (.json)" in got.err
    assert ringtree("export", str(source), str(tmp_path / "hand.json")).code == 0
    made.write_text(text_of(load(source).schedule, "msccl"))
    got = ringtree("prove", str(made))
    assert (got.code, got.out.splitlines()[-1]) == (0, f"not for MSCCL's runtimes as it is: {room}")
    made.write_text(made.read_text().replace('proto="Simple"', 'proto="LL"'))
    assert "not for" not in ringtree("prove", str(made)).out
    again = tmp_path / "again.xml"
    assert ringtree("export", str(made), str(again)).code == 0


def test_a_conversion_keeps_what_its_format_has_and_names_the_rest(ringtree: Ringtree, tmp_path: Path) -> None:
    tuned, copy, other = (tmp_path / name for name in ("tuned.xml", "copy.xml", "plain.txt"))
    tuned.write_text(text_of(build("ring", "all_reduce", 3), "msccl", facts={"proto": "LL", "maxBytes": 4096}))
    got = ringtree("export", str(tuned), str(copy))
    assert (got.code, len(got.out.splitlines())) == (0, 1)
    assert [load(copy).facts[name] for name in ("proto", "minBytes", "maxBytes")] == ["LL", 0, 4096]
    got = ringtree("export", str(tuned), str(other))
    assert got.out.splitlines()[1:] == [f"{other}: not kept: proto LL, maxBytes 4096, nchannels 3"]
