"""`ringtree run --hosts` on shells of this machine: what goes along, what is printed, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from ringtree.cli import main
from ringtree.runtime.launch.hosts import agents
from ringtree.runtime.launch.hosts.launcher import HostedProgram, run, variables
from ringtree.runtime.launch.hosts.link import SSH_OPTIONS, command_for
from ringtree.runtime.launch.hosts.placement import HostRanks, hosts_of, placed
from tests.runtime.hosts.launched import Launched, processes, program, ssh
from tests.runtime.hosts.stand_in_for_ssh import MARK
from tests.waiting import until

Launch = Callable[..., Launched]

READY = """
import numpy, ringtree
comm = ringtree.init(timeout_s=100)
print("ready", flush=True)
while True:
    comm.all_reduce(numpy.ones(3))
    time.sleep(0.01)
"""
DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen(["sleep", "1000"])
print("ready", flush=True)
while True:
    time.sleep(1)
"""


def ran(hosts: str, command: list[str], ranks: int | None = None, **options: object) -> int:
    """The exit code of a job in this process."""
    return run(HostedProgram(command, ssh=ssh(), **options), placed(hosts_of(hosts), ranks))  # type: ignore[arg-type]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """launch(hosts, text): a job of that program."""
    started: list[Launched] = []

    def start(hosts: str, text: str, *words: str, grace_s: float = 20.0) -> Launched:
        started.append(Launched(hosts, *words, program(tmp_path, text), grace_s=grace_s))
        return started[-1]

    yield start
    for job in started:
        job.stop()


def test_ranks_of_several_hosts_are_one_world(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "import numpy, ringtree\ncomm = ringtree.init()\nprint(comm.size, comm.all_reduce(numpy.array([rank]))[0])\n"
    assert ran("a:2,localhost:1,b:2,a:1", [program(tmp_path, text)], 5) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    assert sorted(captured.out.splitlines()) == [
        "[a:0] 5 10", "[a:1] 5 10", "[b:3] 5 10", "[b:4] 5 10", "[localhost:2] 5 10",
    ]  # fmt: skip


@pytest.mark.parametrize(("victim", "end", "how"), [
    (0, "sys.exit()", "ended (its process exited with code 0)"),
    (2, "sys.exit()", "ended (its process exited with code 0)"),
    (3, "os.kill(os.getpid(), 9)", "died (its process was killed by SIGKILL)"),
])  # fmt: skip
def test_a_rank_that_ends_before_init_is_named_on_every_host(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], victim: int, end: str, how: str
) -> None:
    text = f"import ringtree\nif rank == {victim}:\n    {end}\nringtree.init(timeout_s=60)\n"
    assert ran("a:2,b:2", [program(tmp_path, text)]) != 0
    lines = capfd.readouterr().err.splitlines()
    for rank in {*range(4)} - {victim}:
        own = next(line for line in lines if line.startswith(f"[{'aabb'[rank]}:{rank}] ringtree.errors.PeerDied: "))
        assert f"PeerDied: rank {victim} {how} while rank {rank} waited for the job of 4 ranks" in own


def test_folder_arguments_and_variables_go_along(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RINGTREE_DEBUG", "info")
    monkeypatch.setenv("RINGTREE_SECRET", "of another job")
    monkeypatch.setenv("CHOSEN", "it's chosen")
    monkeypatch.setenv("LEFT", "here")
    text = "e = os.environ\nprint(os.getcwd(), sys.argv[1:], e['RINGTREE_DEBUG'], e['CHOSEN'], e['N'], e.get('LEFT'))\n"
    text += "assert len(e['RINGTREE_SECRET']) == 64\n"
    assert ran("a:1,b:1", [program(tmp_path, text), "-n", "x y"], env=["CHOSEN", "N=a=b"]) == 0
    words = f"{tmp_path} ['-n', 'x y'] info it's chosen a=b None"
    assert sorted(capfd.readouterr().out.splitlines()) == [f"[a:0] {words}", f"[b:1] {words}"]


def test_ranks_run_in_the_folder_by_the_name_that_the_shell_has_for_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path / "link")
    program(tmp_path / "real", "print(os.environ['PWD'], os.getcwd(), os.environ['PYTHONPATH'])")
    monkeypatch.setenv("PYTHONPATH", "lib")
    for named, found in (("link", "link"), ("none", "real"), ("..", "real")):
        monkeypatch.setenv("PWD", str(tmp_path / named))
        assert ran("a:1,localhost:1", ["program.py"]) == 0
        words = f"{tmp_path / found} {tmp_path / 'real'} {tmp_path / found}/lib"
        assert sorted(capfd.readouterr().out.splitlines()) == [f"[a:0] {words}", f"[localhost:1] {words}"]


def test_names_of_one_host_share_its_local_ranks(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    text = "e = os.environ\nprint(e['LOCAL_RANK'], e['LOCAL_WORLD_SIZE'], e['OMP_NUM_THREADS'])\n"
    assert ran("a:1,b:2,a:1", [program(tmp_path, text)]) == 0
    threads = max(len(os.sched_getaffinity(0)) // 4, 1)
    lines = [f"[{place}] {rank} 4 {threads}" for rank, place in enumerate(("a:0", "b:1", "b:2", "a:3"))]
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(lines)


def test_half_of_torchs_place_is_filled_in(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = program(tmp_path, "print(os.environ.get('MASTER_ADDR'), os.environ.get('MASTER_PORT'))")
    assert ran("a:1", [file], env=["MASTER_PORT=29777"]) == 0
    assert capfd.readouterr().out == "[a:0] 127.0.0.1 29777\n"
    assert ran("a:1", [file], env=["MASTER_ADDR=1.2.3.4"]) == 0
    _, address, port = capfd.readouterr().out.split()
    assert address == "1.2.3.4" and port.isdigit()


def test_lines_are_whole_and_in_order(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
for i in range(400):
    print(i, chr(97 + rank) * 4000)
    print(i, file=sys.stderr)
print("last", end="")
"""
    assert ran("a:2,chatty:2", [program(tmp_path, text)]) == 0
    captured = capfd.readouterr()
    out, err = captured.out.splitlines(), captured.err.splitlines()
    for rank, host in enumerate(("a", "a", "chatty", "chatty")):
        mine = [line.removeprefix(f"[{host}:{rank}] ") for line in out if line.startswith(f"[{host}:{rank}]")]
        assert mine == [*(f"{i} {chr(97 + rank) * 4000}" for i in range(400)), "last"]
        assert [line for line in err if line.startswith(f"[{host}:{rank}]")] == [
            f"[{host}:{rank}] {i}" for i in range(400)
        ]
    assert len(out) == 4 * 401
    assert len(err) == 4 * 400


def test_lines_of_any_length_and_bytes_come_through(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = "os.write(1, bytes(range(32, 256)) + b'\\n' + b'x' * 3_000_000 + b'\\nlast')\n"
    assert ran("a:1,b:1", [program(tmp_path, text)]) == 0
    captured = capfd.readouterr()
    for name in ("[a:0] ", "[b:1] "):
        first, *cut, last = [line.removeprefix(name) for line in captured.out.splitlines() if line.startswith(name)]
        assert first.startswith(" !") and "\ufffd" in first
        assert (sum(map(len, cut)), {*"".join(cut)}) == (3_000_000, {"x"})
        assert last == "last"
    assert captured.err == ""


def test_output_waits_for_a_slow_reader(launch: Launch) -> None:
    job = launch("far:1,b:1", "print('ready', flush=True)\nfor i in range(3000): print('x' * 5000)\nprint('last')\n")
    assert {line[-5:] for line in job.lines(2)} <= {"ready", "xxxxx"}
    until(lambda: len(processes(job.mark)) > 2)
    code, out, complaints = job.end()
    assert (code, complaints) == (0, [])
    assert sorted(line for line in out.splitlines() if line.endswith("last")) == ["[b:1] last", "[far:0] last"]


@pytest.mark.parametrize(
    ("host", "options", "expected"),
    [
        ("nowhere", {}, "host nowhere is out of ssh's reach: ssh: Could not resolve hostname nowhere"),
        ("refused", {}, "host refused is out of ssh's reach: me@refused: Permission denied"),
        ("mute", {}, "host mute started no agent: the command exited with code 3"),
        ("older", {}, "host older has ringtree 0.0.1, and here is "),
        ("silent", {}, "host silent gave no answer within 1 s"),
        ("b", {"python": "/no/python"}, "host b has no such python: .*/no/python.*; name its path by --python"),
        ("b", {"python": "{bare}"}, "host b has no ringtree .* for its python: .*No module named"),
        ("b", {"interface": "no7"}, "host localhost: RINGTREE_INTERFACE is 'no7'; expected an interface of this host"),
    ],
)  # fmt: skip
def test_a_host_that_cannot_serve_is_named(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    options: dict[str, str],
    expected: str,
) -> None:
    monkeypatch.setattr(agents, "START_S", 10.0 if host != "silent" else 1.0)
    monkeypatch.setenv(MARK, f"{host}{os.getpid()}")
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    bare.chmod(0o755)
    options = {name: text.format(bare=bare) for name, text in options.items()}
    file = program(tmp_path, f"open({str(tmp_path / 'begun')!r}, 'w')")
    assert ran(f"{host}:1,localhost:1", [file], **options) == 1
    captured = capfd.readouterr()
    assert re.fullmatch(f"ringtree run: {expected}.*\n", captured.err)
    assert captured.out == ""
    assert not (tmp_path / "begun").exists()
    assert set(processes(f"{host}{os.getpid()}")) <= {os.getpid()}


EXPECTED = "expected a Python file, -m and a module, or an executable"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("nowhere.py", "host localhost: no such program: nowhere.py"),
        ("no-such-program", f"host localhost: no such program: no-such-program; {EXPECTED}"),
    ],
)
def test_a_program_that_a_host_lacks_is_named(capfd: pytest.CaptureFixture[str], command: str, expected: str) -> None:
    assert ran("localhost:2", [command]) == 1
    assert capfd.readouterr().err == f"ringtree run: {expected} (in {os.getcwd()})\n"


def kill_rank(job: Launched) -> None:
    os.kill(job.rank(1), signal.SIGKILL)


def kill_agent(number: int, job: Launched) -> None:
    os.kill(job.agent_of(1), number)


def kill_connection(job: Launched) -> None:
    every = processes(job.mark).items()
    os.kill(next(pid for pid, text in every if "stand_in_for_ssh.py\0far\0" in text), signal.SIGKILL)


def signal_launcher(number: int, job: Launched) -> None:
    job.process.send_signal(number)


SOON = r"ringtree run: "
AFTER = r"(; after that rank \d on \w+ exited with code 1(, rank \d on \w+ exited with code 1)*)?"
FAULTS: dict[str, tuple[Callable[[Launched], None], int, str]] = {
    "Ctrl-C": (partial(signal_launcher, signal.SIGINT), 130, ""),
    "SIGTERM": (partial(signal_launcher, signal.SIGTERM), 143, ""),
    "launcher killed": (partial(signal_launcher, signal.SIGKILL), -9, ""),
    "rank killed": (kill_rank, 137, rf"{SOON}rank 1 on far was killed by SIGKILL{AFTER}"),
    "agent killed": (
        partial(kill_agent, signal.SIGKILL), 1,
        rf"{SOON}host far lost its agent, which exited with code \d+ \(ranks 1, 2\){AFTER}",
    ),
    "agent ended": (
        partial(kill_agent, signal.SIGTERM), 1,
        rf"{SOON}host far lost its agent, which exited with code 1 \(ranks 1, 2\){AFTER}",
    ),
    "connection killed": (
        kill_connection, 1, rf"{SOON}host far lost its agent, which was killed by SIGKILL \(ranks 1, 2\){AFTER}",
    ),
}  # fmt: skip


QUICK = ("SIGTERM", "launcher killed", "rank killed", "connection killed")
"""Faults of the quick tests; the others are rows of the long campaign."""


def rows(names: Iterable[str], quick: Sequence[str]) -> list[object]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("fault", rows(FAULTS, QUICK))
def test_whatever_ends_all_ranks_end_and_one_line_names_it(launch: Launch, fault: str) -> None:
    cause, code, expected = FAULTS[fault]
    job = launch("a:1,far:2", READY)
    assert job.lines(3) == ["[a:0] ready", "[far:1] ready", "[far:2] ready"]
    cause(job)
    ended, _, complaints = job.end()
    assert ended == code
    assert re.fullmatch(expected, "\n".join(complaints))


@pytest.mark.parametrize("fault", rows([name for name in FAULTS if name != "agent killed"], ("connection killed",)))
def test_ranks_that_heed_nothing_are_stopped_with_their_children(launch: Launch, fault: str) -> None:
    cause, code, expected = FAULTS[fault]
    job = launch("a:1,far:2", DEAF, grace_s=0.3)
    job.lines(3)
    cause(job)
    ended, _, complaints = job.end()
    assert ended == code
    if expected:
        assert re.fullmatch(expected + r"; stopped ranks? [\d, ]+ after 0.3 s", "\n".join(complaints))
    elif code > 0:
        assert complaints == ["ringtree run: stopped ranks 0, 1, 2, which did not end within 0.3 s"]


def test_an_exit_code_is_passed_on(launch: Launch) -> None:
    job = launch("a:1,b:2", "sys.exit(7 if rank == 2 else 0)")
    assert job.end() == (7, "", ["ringtree run: rank 2 on b exited with code 7"])


def test_the_secret_is_on_no_command_line(launch: Launch) -> None:
    job = launch("a:1,far:1", READY)
    job.lines(2)
    every = processes(job.mark).values()
    secret = next(iter(re.findall(r"\0RINGTREE_SECRET=(\w{64})\0", "".join(every))))
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(secret.encode() in line for line in lines)


def test_a_suspended_launcher_goes_on(launch: Launch) -> None:
    job = launch("a:1,b:1", "print('ready', flush=True)\nsys.stdin.read()\nos.kill(os.getppid(), 0)\ntime.sleep(1)\n")
    job.lines(2)
    job.process.send_signal(signal.SIGTSTP)
    until(lambda: Path(f"/proc/{job.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
    job.process.send_signal(signal.SIGCONT)
    assert job.end()[0] == 0


def test_ssh_asks_nothing_and_carries_only_the_agent() -> None:
    there = command_for(HostRanks("b", (0,), False), "ssh -p 22", "/opt/python", {"PYTHONPATH": "/a b", "SECRET": "x"})
    assert there[:3] == ["ssh", "-p", "22"]
    assert [f"-o {option}" for option in (*SSH_OPTIONS, "ConnectTimeout=20")] == re.findall(
        r"-o \S+", " ".join(there[:-2])
    )
    assert there[-2:] == ["b", "exec env 'PYTHONPATH=/a b' /opt/python -m ringtree.runtime.launch.hosts.agent"]
    pod = command_for(HostRanks("p", (0,), False), "kubectl exec -i {host} -- sh -c", None, {})
    assert pod[:-1] == ["kubectl", "exec", "-i", "p", "--", "sh", "-c"]


def test_variables_that_are_not_set_are_refused() -> None:
    with pytest.raises(ValueError, match="--env NONE: no variable"):
        variables(HostedProgram([], env=["NONE"]), {})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("RINGTREE_TIMEOUT=abc", "RINGTREE_TIMEOUT is 'abc'; expected"),
        ("RINGTREE_RANK=7", "--env RINGTREE_RANK: ranks get that from this command; expected it not given\n"),
        ("RINGTREE_ADDRESS=foo", "expected it set in this command's own environment\n"),
        ("RINGTREE_TIMEOUTS=3", "ringtree run: nothing reads RINGTREE_TIMEOUTS; is it RINGTREE_TIMEOUT?\n"),
    ],
)
def test_variables_that_env_names_are_checked_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], given: str, expected: str
) -> None:
    file = program(tmp_path, "print('ran')\n")
    code = main(["run", "--hosts", "localhost:1", "--env", given, file])
    captured = capfd.readouterr()
    assert expected in captured.err
    assert (code, captured.out) == ((0, "[localhost:0] ran\n") if "nothing reads" in expected else (1, ""))
