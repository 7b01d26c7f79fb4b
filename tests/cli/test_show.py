"""`ringtree show` at a terminal, and with files."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ringtree.draw.text.lines import plain
from ringtree.draw.text.rounds import rounds
from ringtree.formats import chrome, load
from ringtree.ir.trace import Event, Trace
from tests.cli.conftest import Ringtree

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def at_a_terminal(*words: str, **environment: str) -> str:
    """The command's output on a terminal of 110 columns."""
    ours, theirs = pty.openpty()
    settings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    settings |= {"TERM": "xterm-256color", "COLUMNS": "110", **environment}
    child = subprocess.Popen([sys.executable, "-m", "ringtree.cli", *words], stdout=theirs, env=settings)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # so Linux reports that the other end is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert child.wait() == 0
    return written.decode().replace("\r\n", "\n")


def test_a_person_sees_rounds_in_colour(ringtree: Ringtree) -> None:
    seen = at_a_terminal("show", "ring", "-n", "4")
    assert re.search(r"\x1b\[1;[0-9;]+m\*03\x1b", seen) and re.search(r"\x1b\[1;[0-9;]+m\*all\x1b", seen)
    assert ESCAPE.sub("", seen) == ringtree("show", "ring", "-n", "4", "--rounds").out


def test_no_color_is_heeded(ringtree: Ringtree) -> None:
    plainly = at_a_terminal("show", "double_tree", "-n", "8", NO_COLOR="1")
    assert "\x1b" not in plainly and plainly == ringtree("show", "double_tree", "-n", "8", "--rounds").out


def test_a_person_can_ask_for_the_text(ringtree: Ringtree) -> None:
    assert at_a_terminal("show", "ring", "-n", "4", "--text") == ringtree("show", "ring", "-n", "4", "--text").out


def test_a_schedule_shown_into_a_file_is_proved(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "tree.txt"
    path.write_text(ringtree("show", "double_tree", "-n", "5").out)
    assert "proved" in ringtree("prove", str(path)).out
    assert "postcondition of all_reduce holds on every rank" in ringtree("show", str(path), "--rounds").out


def piped(data: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ringtree.cli", *words]
    return subprocess.run(command, input=data, capture_output=True, timeout=60)


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_schedule_is_read_from_a_pipe(ringtree: Ringtree, tmp_path: Path, name: str) -> None:
    shown = ringtree("show", "ring", "-n", "4").out.encode()
    proved = piped(shown, "prove", name)
    assert proved.returncode == 0 and b"ring all_reduce over 4 ranks: proved" in proved.stdout
    assert piped(shown, "show", name).stdout == shown
    copy = tmp_path / "ring.txt"
    assert piped(shown, "export", name, str(copy)).returncode == 0 and shown.startswith(copy.read_bytes())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", b"standard input: empty; expected a schedule"),
        (b"hello", b"standard input: not a schedule; expected ringtree's text"),
        (bytes((1 << 24) + 1), b"standard input: more than 16,777,216 bytes; expected a schedule of fewer"),
    ],
    ids=["empty", "other", "long"],
)
def test_what_is_no_schedule_in_a_pipe_is_refused(data: bytes, expected: bytes) -> None:
    got = piped(data, "prove", "-")
    assert got.returncode == 1 and expected in got.stderr and got.stderr.count(b"\n") == 1


def test_a_file_that_cannot_be_played_still_shows_its_text(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_text("schedule odd exscan: 2 ranks, 1 chunks\nonce: 1 input[0] -> 0 output[0]\n")
    got = ringtree("show", str(path))
    assert got.code == 0 and "once: 1 input[0] -> 0 output[0]\n" in got.out
    assert "# cannot be simulated: odd exscan over 2 ranks: round 0" in got.out
    assert ringtree("show", str(path), "--rounds").code == 1


NO_SCHEDULES = {
    "rank": ("Transfers.of(0, ranks, 0)", "no such rank; expected 0..3"),
    "chunk": ("Transfers.of(0, 1, 99)", "outside its buffer"),
    "rounds": ("Transfers.of([0, 1], [1, 2], [0, 1], round=[2, 0])", "its round is before the row above"),
}


@pytest.mark.parametrize("view", ["--picture", "--rounds", "--rank 1", "--html page.html", "--text", ""])
@pytest.mark.parametrize("fault", NO_SCHEDULES)
def test_what_is_no_schedule_is_refused_as_its_proof_refuses_it(
    ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, view: str
) -> None:
    """Its text alone is shown, which may be what is wanted, to put it right."""
    monkeypatch.chdir(tmp_path)
    rows, expected = NO_SCHEDULES[fault]
    name = re.sub(r"\W", "", f"{fault}{view}")  # registered for the whole process
    Path("mine.py").write_text(
        "from ringtree.ir.schedule import Block, Schedule, Transfers\n"
        f"def {name}(ranks):\n    return Schedule('{name}', 'all_gather', ranks, ranks, (Block({rows}),))\n"
    )
    proof = next(line for line in ringtree("prove", f"mine.py:{name}", "-n", "4").out.splitlines() if "n=4: " in line)
    refusal = proof.partition("n=4: ")[2]
    got = ringtree("show", f"mine.py:{name}", "-n", "4", *view.split())
    assert expected in refusal
    if view in ("", "--text"):
        assert got.code == 0 and got.out.startswith(f"schedule {name}") and got.out.endswith(f"{refusal}\n")
    else:
        assert (got.code, got.out, got.err) == (1, "", f"ringtree show: {refusal}\n")


@pytest.mark.parametrize("view", ["--picture", "--rounds", "--rank 1", ""])
def test_missing_data_is_named_in_every_view(ringtree: Ringtree, view: str) -> None:
    wrong = ["examples/own_algorithm.py:there_and_half_back", "-n", "4"]
    got = ringtree("show", *wrong, *view.split())
    last = "NOT DONE: rank 0 violates the postcondition of all_reduce in chunk 0"
    assert got.code == 0 and got.out.splitlines()[-1].removeprefix("# ") == last
    right = ["examples/own_algorithm.py:there_and_back", "-n", "4"]
    assert "NOT DONE" not in ringtree("show", *right, *view.split()).out


@pytest.mark.parametrize("name", ["ag_hier_4_Simple.xml", "ar_tree_12_LL.xml", "r48ll.xml", "a2a4ll.xml"])
def test_files_of_others_are_shown(ringtree: Ringtree, data_folder: Path, name: str) -> None:
    path = data_folder / "msccl_xml" / name
    got = ringtree("show", str(path), "--rounds")
    assert got.out == plain(rounds(load(path).schedule)) + "\n" and "holds on every rank" in got.out


def test_switches_have_rows_too(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "switch.txt"
    path.write_text(
        "schedule switch all_reduce: 3 ranks, 1 chunks, 1 scratch, 1 switches\n"
        "once: 0 data[0] -> 3 scratch[0]; r data[0] +> 3 scratch[0] for r=1..2\n"
        "once: 3 scratch[0] -> r data[0] for r=0..2\n"
    )
    got = ringtree("show", str(path), "--rounds").out
    assert "0 +> 3[s0]" in got and re.search(r"^ +3 .*│ +\*all$", got, re.M) and "s0 -> all others[0]" in got
    assert got.endswith("postcondition of all_reduce holds on every rank\n")


def test_a_page_is_written(ringtree: Ringtree, tmp_path: Path) -> None:
    path = tmp_path / "tree.html"
    got = ringtree("show", "double_tree", "-n", "8", "--html", str(path), "--topology", "cluster:hosts=2")
    assert (got.code, got.out) == (0, f"{path}: any browser opens it\n")
    assert "double_tree all_reduce" in path.read_text()
    assert "expected --html FILE as well" in ringtree("show", "ring", "--topology", "ring").err
    trace = tmp_path / "trace.json"
    chrome.write(Trace.of(2, [0, 1], [Event.COPY, Event.COPY], 0.0, 1e-6, nbytes=8), trace)
    assert ringtree("show", str(trace), "--html", str(path)).code == 0 and "trace" in path.read_text()


def test_one_view_at_a_time(ringtree: Ringtree) -> None:
    assert "not allowed with argument" in ringtree("show", "ring", "--text", "--picture").err
