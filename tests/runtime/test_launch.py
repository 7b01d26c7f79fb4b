"""`ringtree run`'s back end: what it starts, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ringtree.runtime.launch.launch import resolve, run

RUN = "import sys; from ringtree.runtime.launch.launch import run; sys.exit(run(sys.argv[2:], int(sys.argv[1])))"


def program(folder: Path, text: str) -> str:
    file = folder / "program.py"
    file.write_text("import os, signal, sys, time\nrank = int(os.environ['RINGTREE_RANK'])\n" + text)
    return str(file)


def test_output_is_prefixed_with_the_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = program(tmp_path, "print('one'); print('two', *sys.argv[1:]); print('wrong', end='', file=sys.stderr)")
    assert run([file, "-n", "x"], 2) == 0
    said = capsys.readouterr()
    assert sorted(said.out.splitlines()) == ["[0] one", "[0] two -n x", "[1] one", "[1] two -n x"]
    assert sorted(said.err.splitlines()) == ["[0] wrong", "[1] wrong"]


def test_ranks_get_a_core_each_when_they_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = program(tmp_path, "print(len(os.sched_getaffinity(0)))")
    cores = len(os.sched_getaffinity(0))
    run([file], cores)
    assert {line.split()[1] for line in capsys.readouterr().out.splitlines()} == {"1"}
    run([file], cores + 1)
    assert {line.split()[1] for line in capsys.readouterr().out.splitlines()} == {str(cores)}


def test_modules_and_executables_run_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["platform", "--terse"], 1, module=True) == 0
    assert run(["sh", "-c", "echo $RINGTREE_RANK of $RINGTREE_WORLD_SIZE"], 2) == 0
    out = capsys.readouterr().out
    assert "[0] Linux" in out
    assert "[1] 1 of 2" in out


def test_an_exit_code_is_passed_on_and_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([program(tmp_path, "sys.exit(3 if rank == 1 else 0)")], 3) == 3
    assert capsys.readouterr().err == "ringtree run: rank 1 exited with code 3\n"


def test_survivors_of_a_death_may_report_and_are_then_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ringtree.runtime.launch.launch.GRACE_S", 0.7)
    monkeypatch.setattr("ringtree.runtime.launch.launch.STOP_S", 0.3)
    text = """
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(0.3)
print("reporting", flush=True)
if rank != 0:
    time.sleep(60)
sys.exit(5)
"""
    started = time.monotonic()
    assert run([program(tmp_path, text)], 4) == 128 + 9
    assert 0.7 < time.monotonic() - started < 10
    said = capsys.readouterr()
    assert sorted(said.out.splitlines()) == ["[0] reporting", "[2] reporting", "[3] reporting"]
    assert said.err == (
        "ringtree run: rank 1 was killed by SIGKILL; after that rank 0 exited with code 5; "
        "stopped ranks 2, 3 after 0.7 s\n"
    )


@pytest.mark.parametrize(
    ("command", "ranks", "module", "said"),
    [
        (["true"], 0, False, "0 ranks: expected at least 1"),
        ([], 2, False, "no program to run"),
        (["nowhere.py"], 2, False, "no such program: nowhere.py"),
        (["no-such-program"], 2, False, "no such program: no-such-program"),
        (["no.such.module"], 2, True, "no module 'no.such.module' to run"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(
    command: list[str], ranks: int, module: bool, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        run(command, ranks, module=module)


def test_a_file_that_is_not_executable_is_said_to_be_so(tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_text("x")
    with pytest.raises(ValueError, match="it is not executable"):
        resolve([str(file)], module=False)


def children(pid: int) -> set[int]:
    return {int(p) for task in Path(f"/proc/{pid}/task").iterdir() for p in (task / "children").read_text().split()}


def start(file: str, ranks: int) -> subprocess.Popen[str]:
    launcher = subprocess.Popen(
        [sys.executable, "-c", RUN, str(ranks), file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert launcher.stdout is not None
    for _ in range(ranks):
        launcher.stdout.readline()
    return launcher


def gone(pids: set[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_reaches_every_rank_once(tmp_path: Path, number: int) -> None:
    text = """
def told(number, frame):
    print("told", signal.Signals(number).name, flush=True)
    sys.exit(1)
signal.signal(signal.SIGINT, told)
signal.signal(signal.SIGTERM, told)
print("ready", flush=True)
time.sleep(60)
"""
    launcher = start(program(tmp_path, text), 3)
    ranks = children(launcher.pid)
    assert len(ranks) == 3
    launcher.send_signal(number)
    out, err = launcher.communicate(timeout=20)
    assert launcher.returncode == 128 + number
    assert sorted(out.splitlines()) == [f"[{r}] told {signal.Signals(number).name}" for r in range(3)]
    assert "Traceback" not in err
    assert gone(ranks)


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    text = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)\n"
    launcher = start(program(tmp_path, text), 2)
    ranks = children(launcher.pid)
    launcher.send_signal(signal.SIGINT)
    time.sleep(0.3)
    started = time.monotonic()
    launcher.send_signal(signal.SIGINT)
    launcher.communicate(timeout=20)
    assert time.monotonic() - started < 4
    assert gone(ranks)


def test_ranks_do_not_outlive_a_launcher_that_is_killed(tmp_path: Path) -> None:
    launcher = start(program(tmp_path, "print('ready', flush=True)\ntime.sleep(60)\n"), 2)
    ranks = children(launcher.pid)
    launcher.kill()
    launcher.communicate(timeout=20)
    deadline = time.monotonic() + 10
    while not gone(ranks) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert gone(ranks)


def test_what_a_failed_rank_started_goes_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    text = f"""
import subprocess
if rank == 0:
    child = subprocess.Popen(["sleep", "60"])
    open({str(note)!r}, "w").write(str(child.pid))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run([program(tmp_path, text)], 2) == 137
    deadline = time.monotonic() + 10
    pid = int(note.read_text())
    while not gone({pid}) and time.monotonic() < deadline:
        time.sleep(0.02)
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"  # init's to collect


def test_the_job_is_told_in_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = program(
        tmp_path, "import json; print(json.dumps({k: v for k, v in os.environ.items() if 'RINGTREE_' in k}))"
    )
    run([file], 2)
    worlds = [json.loads(line.split(" ", 1)[1]) for line in sorted(capsys.readouterr().out.splitlines())]
    assert [w["RINGTREE_RANK"] for w in worlds] == ["0", "1"]
    assert {w["RINGTREE_WORLD_SIZE"] for w in worlds} == {"2"}
    assert len({w["RINGTREE_JOB"] for w in worlds}) == 1
