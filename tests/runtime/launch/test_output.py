"""The ranks' output on its way through a launcher: all of it, as it is, whoever reads it and however slowly."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.runtime.launch.test_launch import children, gone
from tests.waiting import interruptible, until

RUN = """
import sys
from ringtree.runtime.launch import job
job.GRACE_S, job.STOP_S = 0.5, 0.2
from ringtree.cli import main
sys.exit(main(["run", *sys.argv[1:]]))
"""
LINES = 60_000
PIPE_BYTES = 4096
unbuffered = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


@contextmanager
def job(*words: str, env: dict[str, str] | None = None, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """`ringtree run` with the words, which is over at the end of the block."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    command = [sys.executable, "-c", RUN, *words]
    env = {**os.environ, **(env or {})}
    with subprocess.Popen(command, env=env, preexec_fn=interruptible, **streams) as launcher:  # noqa: PLW1509
        try:
            yield launcher
        finally:
            launcher.kill()


@contextmanager
def pipe(*, blocking: bool = True) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The reader of a pipe with little room, and the end to write to."""
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    os.set_blocking(writes, blocking)
    with open(reads, "rb") as reader, open(writes, "wb") as writer:
        yield reader, writer


def is_full(reader: BinaryIO) -> bool:
    return int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder) > PIPE_BYTES // 2


def counted(prefix: str = "[0] ") -> list[str]:
    return [f"{prefix}{number}" for number in range(1, LINES + 1)]


@unbuffered
@pytest.mark.parametrize("blocking", [True, False], ids=["blocking", "non-blocking"])
def test_a_pipe_that_is_read_late_has_all_lines_whole(unbuffered: str, blocking: bool) -> None:
    with pipe(blocking=blocking) as (reader, writes):
        command = ["sh", "-c", f"seq {LINES}; seq {LINES} | sed s/^/e/ >&2"]
        with job("-n", "1", *command, env={"PYTHONUNBUFFERED": unbuffered}, stdout=writes, stderr=writes) as launcher:
            until(lambda: is_full(reader))
            assert os.get_blocking(writes.fileno()) is blocking  # it is others', too
            writes.close()
            lines = reader.read().decode().splitlines()
            assert launcher.wait() == 0
    assert [line for line in lines if "e" not in line] == counted()
    assert [line for line in lines if "e" in line] == counted("[0] e")


def test_a_reader_who_begins_when_all_ranks_have_ended_has_all() -> None:
    with job("-n", "2", "seq", str(LINES)) as launcher:
        until(lambda: children(launcher.pid))
        until(lambda: not children(launcher.pid))
        time.sleep(1.0)  # longer than the time that a job has after a failure
        assert launcher.stdout is not None
        lines = launcher.stdout.read().decode().splitlines()
        assert launcher.wait() == 0
    assert sorted(lines) == sorted(counted() + counted("[1] "))


@unbuffered
def test_a_file_that_takes_no_more_is_an_error(tmp_path: Path, unbuffered: str) -> None:
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    with open(tmp_path / "log", "wb") as log:
        command = [sys.executable, "-c", RUN, "-n", "1", "seq", str(LINES)]
        env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(command, env=env, stdout=log, stderr=subprocess.PIPE, text=True, preexec_fn=little)
    assert done.returncode == 1
    assert done.stderr.startswith("ringtree run: standard output: File too large")
    assert done.stderr.count("\n") == done.stderr.count("standard output") == 1


def test_bytes_come_through_as_they_are() -> None:
    with job("-n", "1", "printf", r"\377 \303\244\n", env={"PYTHONIOENCODING": "ascii"}) as launcher:
        assert launcher.communicate()[0] == b"[0] \xff \xc3\xa4\n"


@pytest.mark.parametrize("where", [["-n", "2"], ["--hosts", "localhost:2"]], ids=["here", "hosts"])
def test_a_signal_ends_a_job_whose_output_nobody_reads(where: list[str]) -> None:
    with pipe() as (reader, writes), job(*where, "yes", "x" * 60, stdout=writes) as launcher:
        until(lambda: is_full(reader))
        ranks = children(launcher.pid)
        launcher.terminate()
        _, complaints = launcher.communicate()
        assert launcher.returncode == 128 + signal.SIGTERM
        assert gone(ranks)
        assert b" bytes of the ranks' output are lost, as nobody read them\n" in complaints


@pytest.mark.parametrize("same", [False, True], ids=["stdout", "stderr"])
def test_a_death_ends_a_job_whose_output_nobody_reads(same: bool) -> None:
    program = "if [ $RANK = 0 ]; then exec yes; else read -r _; exit 7; fi"
    with pipe() as (reader, writes):
        streams: dict[str, Any] = {
            "stdout": writes,
            "stderr": writes if same else subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
        }
        with job("-n", "2", "sh", "-c", program, **streams) as launcher:
            _, complaints = launcher.communicate()
            assert launcher.returncode == 7
            assert is_full(reader)
            if not same:
                assert b"run: rank 1 exited with code 7; stopped rank 0 after 0.5 s\n" in complaints
