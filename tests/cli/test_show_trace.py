"""`ringtree show` of a trace's file."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ringtree.draw.text.timeline import timeline
from ringtree.formats import chrome
from ringtree.ir.trace import Event, Trace
from tests.cli.conftest import Ringtree

TRACE = Trace.of(2, [0, 1], [Event.COPY, Event.STALL], 0.0, [1e-6, 2e-6], peer=[-1, 0])


def written(folder: Path) -> str:
    path = folder / "trace.json.gz"
    chrome.write(TRACE, path)
    return str(path)


def test_a_trace_is_drawn_plain_into_a_pipe(ringtree: Ringtree, tmp_path: Path) -> None:
    assert ringtree("show", written(tmp_path)).out == timeline(TRACE) + "\n"


def test_options_of_schedules_are_refused(ringtree: Ringtree, tmp_path: Path) -> None:
    path = written(tmp_path)
    for words in (("-n", "4"), ("--rank", "0"), ("--picture",), ("--bytes", "8")):
        got = ringtree("show", path, *words)
        assert got.code == 1 and "is a trace; -" in got.err and not got.out


def test_a_broken_trace_is_one_line(ringtree: Ringtree, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"traceEvents": [')
    got = ringtree("show", str(tmp_path / "x.json"))
    assert got.code == 1 and "x.json: not JSON" in got.err and len(got.err.splitlines()) == 1


@pytest.mark.slow
def test_many_ranks_and_no_call_are_shown(ringtree: Ringtree, tmp_path: Path) -> None:
    """In memory that grows with the ranks, not with their pairs."""
    empty = str(tmp_path / "empty.json")
    chrome.write(Trace.of(chrome.MOST_RANKS // 8, [], [], [], [], calls=()), empty)
    assert ringtree("show", empty).code == 0
    assert ringtree("show", empty, "--html", f"{empty}.html").code == 0


def test_names_cannot_write_to_the_terminal(ringtree: Ringtree, tmp_path: Path) -> None:
    """Nor stop what is written: a name may hold half a surrogate pair, as of a file whose name is no UTF-8."""
    path = str(tmp_path / "x.json")
    chrome.write(replace(TRACE, facts={"name": "\x1b[2J\u202e\ud800 ü"}), path)
    for words in (("show", path), ("compare-trace", path, path)):
        got = ringtree(*words)
        assert got.code == 0 and "\ufffd[2J\ufffd\ufffd ü: 2 ranks" in got.out and "\x1b" not in got.out
    assert ringtree("show", path, "--html", f"{path}.html").code == 0


def test_names_cannot_write_lines_of_their_own(ringtree: Ringtree, tmp_path: Path) -> None:
    path = str(tmp_path / "x.json")
    forged = "A\n\r\x0b\x1e\x85\u2028proved: all"
    chrome.write(replace(TRACE, calls=(forged,) * len(TRACE.calls), facts={"name": forged, "machine": forged}), path)
    for words in (("show", path), ("compare-trace", path, path)):
        got = ringtree(*words)
        assert got.code == 0 and "A" + 6 * "\ufffd" + "proved: all" in got.out
        assert not any(line.startswith("proved") for line in got.out.splitlines())


def on_a_terminal(path: str, **environment: str) -> str:
    """The command's output on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    env |= {"TERM": "xterm-256color", "COLUMNS": "80", **environment}
    command = [sys.executable, "-m", "ringtree.cli", "show", path]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.STDOUT, env=env):
        os.close(theirs)
        output = b""
        while True:
            try:
                more = os.read(ours, 1 << 16)
            except OSError:  # so Linux reports that a terminal has ended
                break
            if not more:
                break
            output += more
    os.close(ours)
    return output.decode()


def test_colour_where_a_person_looks_on_and_wants_it(tmp_path: Path) -> None:
    coloured, plain = (on_a_terminal(written(tmp_path), **env) for env in ({}, {"NO_COLOR": "1"}))
    assert "\x1b[38;5;74m▒" in coloured or "\x1b[38;2;86;180;233m▒" in coloured
    assert "\x1b[3" not in plain and "\x1b[9" not in plain
    assert max(map(len, plain.split("▒ copies")[0].splitlines())) <= 80
