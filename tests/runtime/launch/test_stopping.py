"""How ranks are stopped that are not where, or whose, they were."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ringtree.runtime.launch import job
from ringtree.runtime.launch.launch import run
from tests.runtime.launch.test_launch import children, program
from tests.runtime.launch.test_output import RUN
from tests.waiting import interruptible, until

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


CLEANS_UP = """
def caught(number, frame):
    print("begins", flush=True)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    print("clean", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, caught)
print("ready", flush=True)
while True:  # a signal that comes just before a long sleep is heeded after it
    time.sleep(0.01)
"""
ONCE = """
import sys
from ringtree.cli import main
from ringtree.runtime.launch import job
job.GRACE_S = job.REPEAT_S = 1000.0  # of a machine at leisure
sys.exit(main(["run", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("where", [["-n", "1"], ["--hosts", "localhost:1"]], ids=["here", "hosts"])
def test_a_signal_that_comes_twice_is_one_request(tmp_path: Path, where: list[str]) -> None:
    """As `timeout` sends it: to the launcher, then to the launcher's group."""
    go_on = tmp_path / "go on"
    with subprocess.Popen(
        [sys.executable, "-c", ONCE, *where, program(tmp_path, CLEANS_UP), str(go_on)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as launcher:
        assert launcher.stdout is not None and launcher.stderr is not None
        for word in ("ready", "begins"):
            assert launcher.stdout.readline().split()[-1] == word
            launcher.terminate()
        until(lambda: not pending(launcher.pid))
        go_on.touch()
        out, err = launcher.stdout.read(), launcher.stderr.read()
    assert (launcher.returncode, out.split()[-1:], err) == (143, ["clean"], "")


def pending(pid: int) -> bool:
    """Whether a signal has not reached the process yet."""
    return int(re.findall(r"ShdPnd:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())[0], 16) != 0
