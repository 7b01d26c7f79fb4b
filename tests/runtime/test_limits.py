"""Limits of memory, addresses, files and descriptors: one line that names limit and remedy, on every rank, soon.

The limits are real: set in the ranks by setrlimit, by a control group, by a small file system over /dev/shm. Nobody is
killed by a signal, nobody waits, and nothing is left.
"""

from __future__ import annotations

import _thread
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from ringtree import spawn
from ringtree.errors import PeerDied
from ringtree.runtime.communicator.communicator import Communicator
from tests.release import filtered
from tests.waiting import Event

RANK = """
import os, resource, sys
import numpy as np, ringtree
import ringtree.runtime.world, ringtree.runtime.engines.shm  # what is loaded late needs descriptors of its own
rank, who, what, value, nbytes = int(os.environ["RINGTREE_RANK"]), *sys.argv[1:5]
def limit():
    with open("/proc/self/statm") as file:
        used = {"AS": int(file.read().split()[0]) * 4096, "NOFILE": len(os.listdir("/proc/self/fd")) - 2}
    number = getattr(resource, "RLIMIT_" + what)
    resource.setrlimit(number, (int(value) + used.get(what, 0), resource.getrlimit(number)[1]))
try:
    if what and who in ("all", str(rank)):
        limit()
    comm = ringtree.init(timeout_s=10)
    assert comm.all_reduce(np.full(1 << 18, rank, np.float32))[-1] == 1
    memory = comm.empty(int(nbytes), np.uint8)
    memory[:] = rank  # all of it is there
    group = comm.split(0)
    assert group.all_reduce(np.full(1 << 16, rank, np.float32))[-1] == 1
    comm.barrier()
    comm.close()
    print("fine", flush=True)
except Exception as error:
    print(type(error).__name__, str(error), flush=True)
"""
NO_ROOM = r"MemoryError no room for \d+ bytes of shared memory \(.*\): "
FSIZE = NO_ROOM + r"File too large \(RLIMIT_FSIZE, which bounds shared memory, is 1000000: raise it, ulimit -f\)"
AS = r"cannot find addresses for \d+ bytes of shared memory \(RLIMIT_AS is \d+: raise it, ulimit -v\)"
NOFILE = r"rank {} can open no more files for the group of 2 ranks: Too many open files \(RLIMIT_NOFILE is \d+: "
JOINED = "PeerDied rank {} could not join the group: "
EITHER = f"(OSError .*|PeerDied rank . could not join the group: ){AS}"
LIMITED = {
    "file size, leader": (("0", "FSIZE", "1000000"), FSIZE, FSIZE),
    "file size, member": (("1", "FSIZE", "1000000"), "fine", "fine"),
    "addresses, all": (("all", "AS", "3000000"), EITHER, EITHER),
    "addresses, leader": (("0", "AS", "3000000"), f"OSError .*{AS}", JOINED.format(0) + AS),
    "addresses, member": (("1", "AS", "3000000"), JOINED.format(1) + AS, f"OSError .*{AS}"),
    "descriptors, leader": (("0", "NOFILE", "2"), "OSError .*" + NOFILE.format(0), "RuntimeError " + NOFILE.format(0)),
    "descriptors, member": (("1", "NOFILE", "1"), "RuntimeError " + NOFILE.format(1), "OSError .*" + NOFILE.format(1)),
    "locked memory": (("all", "MEMLOCK", "0"), "fine", "fine"),
    "core files": (("all", "CORE", "0"), "fine", "fine"),
}
"""Who is limited, in what and to how much (beyond what is in use); what rank 0 prints, and rank 1."""


def lines(out: str, rank: int) -> list[str]:
    return [line.removeprefix(f"[{rank}] ") for line in out.splitlines() if line.startswith(f"[{rank}] ")]


def ran(words: list[str], before: list[str] | None = None) -> tuple[str, float]:
    """The ranks' output and how long they took. None is killed; of what they shared, nothing stays."""
    command = [*(before or []), sys.executable, "-m", "ringtree.cli", "run", "-n", "2", *words]
    began_s, here = time.monotonic(), set(os.listdir("/dev/shm"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr + done.stdout
    assert set(os.listdir("/dev/shm")) <= here
    return done.stdout, time.monotonic() - began_s


@pytest.fixture
def program(tmp_path: Path) -> str:
    (tmp_path / "rank.py").write_text(RANK)
    return str(tmp_path / "rank.py")


@pytest.mark.parametrize("limit", LIMITED)
def test_a_limit_is_named_on_every_rank(limit: str, program: str) -> None:
    (who, what, value), *expected = LIMITED[limit]
    out, seconds = ran([program, who, what, value, "1000000"])
    for rank in range(2):
        (line,) = lines(out, rank)
        assert re.match(expected[rank], line), out
    assert seconds < 15


@pytest.mark.parametrize(
    "left", [pytest.param(left, marks=[] if left in (0, 2, 5) else pytest.mark.slow) for left in range(8)]
)
@pytest.mark.parametrize("who", ["0", "1"])
def test_however_few_descriptors_are_left_no_rank_waits_and_none_is_killed(who: str, left: int, program: str) -> None:
    """From one to enough: each rank prints one line; the limited one either goes on or says which limit it is."""
    out, seconds = ran([program, who, "NOFILE", str(left + 1), "1000000"])
    (mine,), (other,) = lines(out, int(who)), lines(out, 1 - int(who))
    assert mine == "fine" or "RLIMIT_NOFILE is" in mine, out
    assert (other == "fine") is (mine == "fine"), out
    assert seconds < 20, out


def test_a_receive_that_could_not_begin_leaves_its_array_alone() -> None:
    """Without room for the thread that moves messages: the message that comes later goes to the next receive."""

    def rank(comm: Communicator) -> tuple[str, float, float]:
        refused, taken, why = np.zeros(4, np.float32), np.zeros(4, np.float32), ""
        if comm.rank == 1:
            comm.isend(taken, 1)
            comm.irecv(taken, 1).wait()  # which loads all that these calls need, and begins no thread
            held = _thread.allocate_lock()
            held.acquire()
            before = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (1 << 20, before[1]))  # it has more already
            with suppress(RuntimeError):  # the stacks of threads that have ended, here and before the fork, serve again
                while True:
                    _thread.start_new_thread(held.acquire, ())
            try:
                comm.irecv(refused, 0)
            except OSError as error:
                why = error.strerror
            resource.setrlimit(resource.RLIMIT_AS, before)
        comm.barrier()
        if comm.rank == 0:
            comm.send(np.ones(4, np.float32), 1)
        else:
            comm.recv(taken, 0)
        return why, refused[0], taken[0]

    why, refused, taken = spawn(rank, 2, timeout_s=10)[1]
    assert re.match(r"cannot start the thread that moves messages \(RLIMIT_AS is \d+: raise it, ulimit -v\)", why), why
    assert (refused, taken) == (0, 1)


def test_the_launcher_names_the_limit_of_descriptors(program: str) -> None:
    words = [
        "sh",
        "-c",
        'ulimit -n 20; exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "ringtree.cli",
        "run",
        "-n",
        "9",
        program,
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert re.search(r"Too many open files \(RLIMIT_NOFILE is 20: raise it, ulimit -n\)", done.stderr), done.stderr


THREADLESS = """
import os, resource, numpy as np, ringtree
comm = ringtree.init(timeout_s=10)
comm.sendrecv(np.ones(9), (comm.rank + 1) % 2, np.empty(9), (comm.rank + 1) % 2)
try:
    if comm.rank == 1:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
        os.setuid(65534)  # whom the limit binds
        comm.isend(np.ones(10_000_000), 0).wait()
    else:
        comm.recv(np.empty(10_000_000), 1)
except Exception as error:
    print(type(error).__name__, str(error), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_every_rank_learns_that_one_may_start_no_thread(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(THREADLESS)
    out, seconds = ran([str(tmp_path / "rank.py")])
    why = r"cannot start the thread that moves messages \(RLIMIT_NPROC is 1: raise it, ulimit -u\)"
    for rank, expected in enumerate(
        (f"Poisoned rank 1 failed within a message that it sent: {why}", f".*Error .*{why}")
    ):
        (line,) = lines(out, rank)
        assert re.match(expected, line), out
    assert seconds < 15


as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can make control groups and mounts")


@pytest.fixture
def control_group() -> Iterator[tuple[Path, str]]:
    """A control group below this process's, with room for 400 MB, and the name of the file with the limit."""
    entries = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    v1 = next((path for _, controllers, path in entries if "memory" in controllers.split(",")), None)
    name = f"ringtree-test-{os.getpid()}"
    if v1 is not None:
        folder, file = Path(f"/sys/fs/cgroup/memory{v1.rstrip('/')}/{name}"), "memory.limit_in_bytes"
    else:
        path = next((path for _, controllers, path in entries if not controllers), "/")
        folder, file = Path(f"/sys/fs/cgroup{path.rstrip('/')}/{name}"), "memory.max"
    try:
        folder.mkdir()
        (folder / file).write_text(str(400 << 20))
    except OSError as error:
        if folder.is_dir():
            folder.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    yield folder, file
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(0.05)


@as_root
def test_a_control_groups_limit_is_named_before_it_ends_a_rank(control_group: tuple[Path, str], program: str) -> None:
    folder, file = control_group
    inside = ["sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh"]
    out, _ = ran([program, "none", "", "0", str(1 << 20)], inside)
    assert [lines(out, rank) for rank in range(2)] == [["fine"]] * 2
    out, seconds = ran([program, "none", "", "0", str(300 << 20)], inside)
    for rank in range(2):
        (line,) = lines(out, rank)
        assert re.match(rf"{NO_ROOM}by {folder / file} \d+ are available; free memory or raise its limit$", line), out
    assert seconds < 15 and not list(Path("/dev/shm").glob("ringtree*"))


@as_root
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter's numbers are of x86-64")
@pytest.mark.skipif(not shutil.which("unshare"), reason="no unshare")
@pytest.mark.parametrize("size", ["64k", "30m", "300m", pytest.param("1m", marks=pytest.mark.slow)])
def test_a_small_dev_shm_is_named_where_memfds_are_refused(size: str, program: str) -> None:
    """There shared memory is a file of /dev/shm, and a write beyond its room would end the rank by SIGBUS."""
    inside = f'mount -t tmpfs -o size={size} tmpfs /dev/shm; exec "$@"; '
    before = ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh"]
    before += [sys.executable, filtered.__file__, "memfd_create"]
    out, seconds = ran([program, "none", "", "0", str(40 << 20)], before)
    for rank in range(2):
        (line,) = lines(out, rank)
        full = f"{NO_ROOM}/dev/shm, which stands in for memfd_create, is full"
        assert line == "fine" if size == "300m" else re.match(full, line), out
    assert seconds < 15


def test_a_rank_that_cannot_join_a_subgroup_is_the_first_cause_elsewhere() -> None:
    """Its number in the world is named, by which recovering programs leave it out."""

    def rank(comm: Communicator, over: Event) -> tuple[int | None, str]:
        try:
            if comm.rank == 3:
                used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                before = resource.getrlimit(resource.RLIMIT_AS)
                resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20), before[1]))
                try:
                    comm.group([2, 3]).barrier()
                except OSError as error:
                    over.wait()
                    return None, str(error)
                finally:
                    resource.setrlimit(resource.RLIMIT_AS, before)
            elif comm.rank == 2:
                comm.group([2, 3]).barrier()
            comm.barrier()
        except PeerDied as error:
            if comm.rank == 2:
                comm.close()
            else:
                over.set()
            return error.rank, str(error)
        return None, "no error"

    *waiting, (named, _), (_, refused) = spawn(rank, 4, Event(), timeout_s=5)
    assert "RLIMIT_AS" in refused and named == 1
    for culprit, text in waiting:
        assert culprit == 3 and "rank 3 could not join the group" in text
