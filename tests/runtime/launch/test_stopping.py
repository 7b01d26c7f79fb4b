"""How ranks are stopped that are not where, or whose, they were."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ringtree.runtime.launch import job
from ringtree.runtime.launch.launch import run
from tests.runtime.launch.test_launch import children, program
from tests.runtime.launch.test_output import RUN
from tests.waiting import interruptible

_PR_CAPBSET_DROP, CAP_KILL = 24, 5
LEAVES = """
if rank == 1:
    os.setpgid(0, os.getpgid(os.getppid()))
    open({note!r}, "w").close()
    time.sleep(1000)
while not os.path.exists({note!r}):
    time.sleep(0.01)
sys.exit(3)
"""
CHANGES = """
if rank == 1:
    os.setresuid(65534, 65534, 65534)
    print("changed", flush=True)
time.sleep(1000)
"""


def test_a_rank_that_leaves_its_group_is_stopped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "GRACE_S", 0.3)
    assert run([program(tmp_path, LEAVES.format(note=str(tmp_path / "note")))], 2) == 3
    assert capfd.readouterr().err == "ringtree run: rank 0 exited with code 3; stopped rank 1 after 0.3 s\n"


def as_a_user() -> None:
    """As a user has none, root has no right to signal other users' processes."""
    interruptible()
    ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, CAP_KILL, 0, 0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to change a rank's user")
@pytest.mark.parametrize(
    ("cause", "code", "words"),
    [
        ("rank 0", 137, "ringtree run: rank 0 was killed by SIGKILL; rank 1"),
        ("launcher", 143, "ringtree run: rank 1"),
    ],
)
def test_a_rank_that_is_another_users_is_named_and_left(tmp_path: Path, cause: str, code: int, words: str) -> None:
    command = [sys.executable, "-c", RUN, "-n", "2", program(tmp_path, CHANGES)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_a_user,  # noqa: PLW1509
    ) as launcher:
        assert launcher.stdout is not None and launcher.stdout.readline() == "[1] changed\n"
        first, second = sorted(children(launcher.pid))
        if cause == "launcher":
            launcher.terminate()
        else:
            os.kill(first, signal.SIGKILL)
        _, complaints = launcher.communicate()
        os.kill(second, signal.SIGKILL)
    why = "could not be stopped: Operation not permitted, expected processes of this user's"
    assert (launcher.returncode, complaints) == (code, f"{words} {why}\n")
