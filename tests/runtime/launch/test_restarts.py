"""Ranks of an elastic job that are started again, and those that cannot be."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from ringtree.runtime.launch import restarts
from ringtree.runtime.launch.launch import run

PAUSES_S = (0.05, 0.1, 0.2, 0.4)


def elastic(file: Path, ranks: int, restarts: int) -> subprocess.CompletedProcess[str]:
    """A job by the command itself: its ranks may take its descriptors."""
    command = [sys.executable, "-m", "ringtree.cli", "run", "--elastic", "-n", str(ranks), "--max-restarts"]
    return subprocess.run([*command, str(restarts), str(file)], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        ('rm "$0"', r"No such file or directory: .*/program"),
        ('chmod -x "$0"', r"Permission denied: .*/program"),
        ("prlimit --pid $PPID --nofile=8:", r"Too many open files( \(RLIMIT_NOFILE is 8: .*\))?"),
    ],
    ids=["file", "right", "descriptors"],
)
def test_a_restart_that_cannot_be_made_leaves_the_others_alone(tmp_path: Path, loss: str, reason: str) -> None:
    file = tmp_path / "program"
    file.write_text(f"""#!/bin/sh
cd {tmp_path}
if [ $RANK = 1 ]; then
    until [ -e here0 ] && [ -e here2 ]; do sleep 0.02; done
    {loss}; echo $$ > 1.new; mv 1.new 1; kill -9 $$
fi
echo > here$RANK
until [ -e 1 ]; do sleep 0.02; done
while [ -e /proc/$(cat 1) ]; do sleep 0.02; done
sleep 0.3; echo went on
""")
    file.chmod(0o755)
    done = elastic(file, 3, 1)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0] went on", "[2] went on"])
    line = rf"ringtree run: rank 1 was killed by SIGKILL; after that rank 1 could not be started again: {reason}; "
    assert re.fullmatch(rf"{line}ranks 0, 2 went on to the end\n", done.stderr)


def test_a_rank_that_dies_at_once_waits_longer_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "PAUSE_S", 0.05)
    file, starts = tmp_path / "program", tmp_path / "starts"
    file.write_text(
        f"#!/bin/sh\nif [ $RANK = 1 ]; then date +%s.%N >> {starts}; kill -9 $$; fi\n"
        f"touch {starts}\nuntil [ $(cat {starts} | wc -l) = 6 ]; do sleep 0.02; done\n"
    )
    file.chmod(0o755)
    lines: list[str] = []
    assert run([str(file)], 2, elastic=True, restarts=5, write=lines.append) == 0
    assert lines == ["rank 1 was killed by SIGKILL 6 times; rank 0 went on to the end"]
    times = [float(line) for line in starts.read_text().split()]
    waits = [later - earlier for earlier, later in pairwise(times[1:])]
    assert all(wait > pause_s for wait, pause_s in zip(waits, PAUSES_S, strict=True))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, number: signal.Signals
) -> None:
    if number == signal.SIGINT:  # a shell starts what runs in its background with SIGINT ignored, and so would `run`
        request.addfinalizer(partial(signal.signal, number, signal.signal(number, signal.default_int_handler)))
    monkeypatch.setattr(restarts, "PAUSE_S", 1000.0)
    file, died = tmp_path / "program", tmp_path / "died"
    file.write_text(
        f"#!/bin/sh\nif [ $RANK = 1 ]; then echo $$ >> {died}; kill -9 $$; fi\ntouch {died}\n"
        f"until [ $(cat {died} | wc -l) = 2 ]; do sleep 0.02; done\n"
        f"while [ -e /proc/$(tail -1 {died}) ]; do sleep 0.02; done\n"
        f"sleep 0.1; kill -{number} $PPID; exec sleep 1000\n"
    )
    file.chmod(0o755)
    monkeypatch.setattr(restarts, "LONGEST_PAUSE_S", 1000.0)
    assert run([str(file)], 2, elastic=True, restarts=5, write=print) == 128 + number
    assert len(died.read_text().split()) == 2
