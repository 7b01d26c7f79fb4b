"""`ringtree run`'s back end: what it starts, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ringtree.runtime.launch import job
from ringtree.runtime.launch.launch import run
from tests.waiting import interruptible, until

RUN = """
import sys
from ringtree.runtime.launch import job, launch
job.GRACE_S, job.REPEAT_S = 1000.0, 0.0  # nobody ends because time is up
sys.exit(launch.run(sys.argv[2:], int(sys.argv[1])))
"""


def program(folder: Path, text: str) -> str:
    file = folder / "program.py"
    file.write_text("import os, signal, sys, time\nrank = int(os.environ['RINGTREE_RANK'])\n" + text)
    return str(file)


def test_output_is_prefixed_with_the_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = program(tmp_path, "print('one'); print('two', *sys.argv[1:]); print('wrong', end='', file=sys.stderr)")
    assert run([file, "-n", "x"], 2) == 0
    captured = capsys.readouterr()
    assert sorted(captured.out.splitlines()) == ["[0] one", "[0] two -n x", "[1] one", "[1] two -n x"]
    assert sorted(captured.err.splitlines()) == ["[0] wrong", "[1] wrong"]


def test_ranks_get_a_core_each_when_they_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = program(tmp_path, "print(len(os.sched_getaffinity(0)))")
    cores = len(os.sched_getaffinity(0))
    run([file], cores)
    assert {line.split()[1] for line in capsys.readouterr().out.splitlines()} == {"1"}
    run([file], cores + 1)
    assert {line.split()[1] for line in capsys.readouterr().out.splitlines()} == {str(cores)}


def test_fewer_ranks_have_all_cores_and_as_many_threads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    run([program(tmp_path, "print(len(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])")], 1)
    cores = len(os.sched_getaffinity(0))
    assert capsys.readouterr().out == f"[0] {cores} {cores}\n"


def test_more_ranks_than_a_group_has_are_not_started(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="5000 ranks: expected 1 to 4096"):
        run([program(tmp_path, "")], 5000)


TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
TORCHS = f"print(*map(os.environ.get, {TORCH}))"


def test_ranks_have_torchs_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a port at which a server can listen, and to which nothing else is bound meanwhile."""
    listens = "import socket; socket.create_server(('', int(os.environ['MASTER_PORT']))) if rank == 0 else None"
    assert run([program(tmp_path, f"{TORCHS}; {listens}")], 2) == 0
    first, second = sorted(line.split()[1:] for line in capsys.readouterr().out.splitlines())
    assert first[:5] == ["0", "2", "0", "2", "127.0.0.1"] and second[:5] == ["1", "2", "1", "2", "127.0.0.1"]
    assert first[5] == second[5]


def test_the_users_place_of_torchs_store_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "here")
    monkeypatch.setenv("MASTER_PORT", "29511")
    file = program(tmp_path, TORCHS)
    run([file], 1)
    assert capsys.readouterr().out.split()[1:] == ["0", "1", "0", "1", "here", "29511"]
    monkeypatch.delenv("MASTER_ADDR")
    run([file], 1)
    assert capsys.readouterr().out.split()[5:] == ["127.0.0.1", "29511"]
    monkeypatch.setenv("MASTER_ADDR", "here")
    monkeypatch.delenv("MASTER_PORT")
    run([file], 1)
    words = capsys.readouterr().out.split()
    assert words[5] == "here" and int(words[6]) > 0
    monkeypatch.setenv("MASTER_PORT", "29511")
    for name in ("RANK", "WORLD_SIZE"):  # now the place is that of a job that this one is a rank of
        monkeypatch.setenv(name, "7")
    run([file], 1)
    words = capsys.readouterr().out.split()
    assert words[1:6] == ["0", "1", "0", "1", "127.0.0.1"] and words[6] != "29511"


def test_an_exit_code_is_passed_on_and_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([program(tmp_path, "sys.exit(3 if rank == 1 else 0)")], 3) == 3
    assert capsys.readouterr().err == "ringtree run: rank 1 exited with code 3\n"


def test_survivors_of_a_death_may_report_and_are_then_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ringtree.runtime.launch.job.GRACE_S", 1.5)
    monkeypatch.setattr("ringtree.runtime.launch.job.STOP_S", 0.3)
    text = f"""
def here(rank):
    return os.path.join({str(tmp_path)!r}, str(rank))
if rank == 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(here(f".{{rank}}"), "w") as file:
    file.write(str(os.getpid()))
os.rename(here(f".{{rank}}"), here(rank))
while not all(os.path.exists(here(r)) for r in range(4)):
    time.sleep(0.005)
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
while os.path.exists("/proc/" + open(here(1)).read()):
    time.sleep(0.005)
print("reporting", flush=True)
if rank != 0:
    time.sleep(1000)
sys.exit(5)
"""
    assert run([program(tmp_path, text)], 4) == 128 + 9
    captured = capsys.readouterr()
    assert sorted(captured.out.splitlines()) == ["[0] reporting", "[2] reporting", "[3] reporting"]
    assert captured.err == (
        "ringtree run: rank 1 was killed by SIGKILL; after that rank 0 exited with code 5; "
        "stopped ranks 2, 3 after 1.5 s\n"
    )


@pytest.mark.parametrize(
    ("ends", "expected", "line"),
    [
        ("rank == 1", 0, "rank 1 was killed by SIGKILL; ranks 0, 2 went on to the end"),
        ("True", 137, "rank"),
    ],
)
def test_survivors_of_an_elastic_job_are_not_stopped(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    ends: str,
    expected: int,
    line: str,
) -> None:
    monkeypatch.setattr(job, "GRACE_S", 0.0)
    file = program(tmp_path, f"os.kill(os.getpid(), signal.SIGKILL) if {ends} else time.sleep(0.3)")
    assert run([file], 3, elastic=True) == expected
    assert line in capsys.readouterr().err


@pytest.mark.parametrize(
    ("restarts", "ends", "expected"),
    [
        (0, "SIGKILL", []),
        (1, "SIGKILL", ["1"]),
        (3, "SIGKILL", ["1", "2", "3"]),  # a restarted rank is killed, too
        (2, "exit", []),  # the program's own decision
    ],
)
def test_a_killed_rank_of_an_elastic_job_is_started_again(
    tmp_path: Path, restarts: int, ends: str, expected: list[str]
) -> None:
    how = "os.kill(os.getpid(), signal.SIGKILL)" if ends == "SIGKILL" else "sys.exit(3)"
    text = f"""
restart, folder = os.environ.get("RINGTREE_RESTART"), {str(tmp_path)!r}
if os.environ["RINGTREE_RANK"] == "1":
    if restart:
        open(f"{{folder}}/restart-{{restart}}", "w").write(os.environ["RANK"] + os.environ["LOCAL_WORLD_SIZE"])
    if {ends == "exit"} or restart != "{restarts}":
        {how}
elif {len(expected) > 0}:
    until = time.monotonic() + 60
    while not os.path.exists(f"{{folder}}/restart-{restarts}") and time.monotonic() < until:
        time.sleep(0.01)
"""
    assert run([program(tmp_path, text)], 2, elastic=True, restarts=restarts) == 0
    assert sorted(file.name.partition("-")[2] for file in tmp_path.glob("restart-*")) == expected
    assert {file.read_text() for file in tmp_path.glob("restart-*")} <= {"12"}


def children(pid: int) -> set[int]:
    return {int(p) for task in Path(f"/proc/{pid}/task").iterdir() for p in (task / "children").read_text().split()}


@pytest.mark.parametrize("closed", [1, 2])
def test_a_stream_of_the_launcher_may_be_closed(closed: int) -> None:
    other = 3 - closed
    rank = f"echo lost >&{closed}; echo kept >&{other}; exit 3"
    run = f"exec {sys.executable} -m ringtree.cli run -n 1 sh -c '{rank}' {closed}>&-"
    done = subprocess.run(["sh", "-c", run], capture_output=True, text=True)
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert done.returncode == 3 and lines[0] == "[0] kept" and "error" not in "".join(lines)


def start(file: str, ranks: int, disposition: Callable[[], None] = interruptible) -> subprocess.Popen[str]:
    """A launcher whose ranks have each printed a line."""
    launcher = subprocess.Popen(
        [sys.executable, "-c", RUN, str(ranks), file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=disposition,  # noqa: PLW1509  # it takes no lock
    )  # fmt: skip
    assert launcher.stdout is not None
    for _ in range(ranks):
        launcher.stdout.readline()
    return launcher


def gone(pids: set[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_reaches_every_rank_once(tmp_path: Path, number: int) -> None:
    text = """
def caught(number, frame):
    print("caught", signal.Signals(number).name, flush=True)
    sys.exit(1)
signal.signal(signal.SIGINT, caught)
signal.signal(signal.SIGTERM, caught)
print("ready", flush=True)
while True:
    time.sleep(0.01)
"""
    launcher = start(program(tmp_path, text), 3)
    ranks = children(launcher.pid)
    assert len(ranks) == 3
    launcher.send_signal(number)
    out, err = launcher.communicate()
    assert launcher.returncode == 128 + number
    assert sorted(out.splitlines()) == [f"[{r}] caught {signal.Signals(number).name}" for r in range(3)]
    assert "Traceback" not in err
    assert gone(ranks)


@pytest.mark.parametrize("where", [["-n", "2"], ["--hosts", "localhost:2"]], ids=["here", "hosts"])
def test_a_batch_systems_signal_reaches_every_rank(tmp_path: Path, where: list[str]) -> None:
    text = """
signal.signal(signal.SIGUSR1, lambda *_: print("caught", flush=True))
signal.signal(signal.SIGUSR2, lambda *_: sys.exit(0))
print("ready", flush=True)
while True:
    time.sleep(1)
"""
    command = [sys.executable, "-m", "ringtree.cli", "run", *where, program(tmp_path, text)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        for words, number in (("ready", signal.SIGUSR1), ("caught", signal.SIGUSR2)):
            assert [launcher.stdout.readline().split()[-1] for _ in range(2)] == [words] * 2
            launcher.send_signal(number)
    assert launcher.returncode == 0


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    text = """
signal.signal(signal.SIGINT, lambda *_: print("caught", flush=True))
print("ready", flush=True)
while True:
    time.sleep(1)
"""
    launcher = start(program(tmp_path, text), 2)
    ranks = children(launcher.pid)
    launcher.send_signal(signal.SIGINT)
    assert launcher.stdout is not None
    assert sorted(launcher.stdout.readline() for _ in range(2)) == ["[0] caught\n", "[1] caught\n"]
    launcher.send_signal(signal.SIGINT)
    launcher.communicate()
    assert gone(ranks)


def ignoring() -> None:
    """As nohup does, and a shell's `&`."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def test_signals_that_are_ignored_at_the_start_stay_so(tmp_path: Path) -> None:
    text = "print('ready', flush=True)\ntime.sleep(1000)\n"
    launcher = start(program(tmp_path, text), 2, ignoring)
    both = 1 << signal.SIGINT - 1 | 1 << signal.SIGHUP - 1
    for pid in (launcher.pid, *children(launcher.pid)):
        status = Path(f"/proc/{pid}/status").read_text()
        assert int(re.search(r"SigIgn:\s+(\w+)", status)[1], 16) & both == both
    launcher.send_signal(signal.SIGINT)
    launcher.send_signal(signal.SIGHUP)
    launcher.send_signal(signal.SIGTERM)
    launcher.communicate()
    assert launcher.returncode == 128 + signal.SIGTERM


def test_ranks_do_not_outlive_a_launcher_that_is_killed(tmp_path: Path) -> None:
    launcher = start(program(tmp_path, "print('ready', flush=True)\ntime.sleep(1000)\n"), 2)
    ranks = children(launcher.pid)
    launcher.kill()
    launcher.communicate()
    until(lambda: gone(ranks))


def test_children_of_a_failed_rank_end_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    text = f"""
import subprocess
if rank == 0:
    child = subprocess.Popen(["sleep", "1000"])
    open({str(note)!r}, "w").write(str(child.pid))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run([program(tmp_path, text)], 2) == 137
    state = Path(f"/proc/{int(note.read_text())}/stat")
    until(lambda: not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z")  # init's to collect


def test_the_environment_describes_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = program(
        tmp_path, "import json; print(json.dumps({k: v for k, v in os.environ.items() if 'RINGTREE_' in k}))"
    )
    run([file], 2)
    worlds = [json.loads(line.split(" ", 1)[1]) for line in sorted(capsys.readouterr().out.splitlines())]
    assert [w["RINGTREE_RANK"] for w in worlds] == ["0", "1"]
    assert {w["RINGTREE_WORLD_SIZE"] for w in worlds} == {"2"}
    assert len({w["RINGTREE_JOB"] for w in worlds}) == 1
