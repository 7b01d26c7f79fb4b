"""How communicators end: closed, forgotten, forked, interrupted. Nothing is left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringtree import Poisoned, init, spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters, in_threads
from tests.runtime.conftest import available
from tests.waiting import Event, interruptible


def children() -> set[int]:
    """This process's children, zombies too."""
    return {int(p) for task in Path("/proc/self/task").iterdir() for p in (task / "children").read_text().split()}


native = pytest.mark.skipif(not available("shm"), reason="the native engine is not built")


def test_the_last_call_may_be_made_long_after_others_have_closed() -> None:
    """A rank that only sends closes after a second of waiting for those that have not begun its last call."""

    def rank(comm: Communicator) -> float:
        time.sleep(1.3 * comm.rank)
        x = np.full(1000, float(comm.rank))
        comm.broadcast(x, 0)
        comm.close()
        return float(x.max())

    assert spawn(rank, 2, timeout_s=60) == [0.0, 0.0]


def test_a_closed_communicator_raises(engine: str) -> None:
    def rank(comm: Communicator) -> None:
        comm.barrier()
        comm.close()
        comm.close()
        for act in (comm.barrier, lambda: comm.all_reduce(np.ones(3)), lambda: comm.send(np.ones(1), 0), comm.counters):
            with pytest.raises(RuntimeError, match=f"this communicator \\(rank {comm.rank} of 2\\) is closed"):
                act()

    spawn(rank, 2, engine=engine, threads=in_threads(engine))


def test_a_with_block_closes() -> None:
    with init(engine="reference") as comm:
        assert comm.all_reduce(3) == 3
    with pytest.raises(RuntimeError, match="is closed"):
        comm.barrier()


def in_child(use: Callable[[], Any]) -> str:
    """The error that a forked child gets when it uses its parent's communicator."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        message = "no error"
        try:
            use()
        except RuntimeError as error:
            message = str(error)
        os.write(write, message.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


@native
def test_a_forked_child_gets_an_error_and_harms_nobody() -> None:
    def rank(comm: Communicator) -> None:
        comm.all_reduce(np.ones(4))  # learnt: the child must not find the fast path either
        message = in_child(lambda: comm.all_reduce(np.ones(4)))
        assert f"is a fork of rank {comm.rank} and cannot use its communicator" in message, message
        assert "ringtree.init()" in message
        child = multiprocessing.get_context("fork").Process(target=gc.collect)  # ends as processes end
        child.start()
        child.join()
        for _ in range(3):
            assert comm.all_reduce(np.ones(4))[0] == comm.size

    spawn(rank, 3, timeout_s=60)


@native
def test_a_forked_child_may_have_a_world_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RINGTREE_RANK", "RINGTREE_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with init() as comm:
        pid = os.fork()
        if pid == 0:
            with init() as mine:
                os._exit(int(mine.all_reduce(41)) + 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
        comm.barrier()


@native
def test_a_forked_child_moves_none_of_its_parents_messages() -> None:
    def rank(comm: Communicator) -> None:
        peer, x = 1 - comm.rank, np.arange(1_000_000)
        received = comm.irecv(np.zeros_like(x), peer)
        sent = comm.isend(x, peer)
        pid = os.fork()
        if pid == 0:
            with Communicator("shm", GroupParameters(f"fork {os.getpid()}", 0, ("0",), 20)) as mine:
                # long enough a wait to move what is under way
                os._exit(mine.irecv(np.zeros(1)).wait(0.2))
        assert os.waitpid(pid, 0)[1] == 0
        comm.barrier()
        assert (received.result() == x).all()
        assert sent.wait()

    spawn(rank, 2, timeout_s=60)


@native
def test_a_forked_child_waits_for_no_call_of_its_parents() -> None:
    def rank(comm: Communicator) -> None:
        ended = comm.all_reduce(2, async_op=True)
        ended.wait()
        work = comm.all_reduce(1, async_op=True) if comm.rank == 0 else None  # the other comes when the child has ended
        if work is not None:
            assert f"forked from rank {comm.rank}" in in_child(work.wait)
            assert in_child(ended.wait) == "no error"
        comm.send(np.ones(1), 1) if comm.rank == 0 else comm.recv(np.ones(1), 0)
        assert (comm.all_reduce(1) if work is None else work.result()) == comm.size

    spawn(rank, 2, timeout_s=60)


@native
def test_nothing_stays_behind() -> None:
    def rank(comm: Communicator) -> int:
        array = comm.empty(1000)
        array[:] = 1
        for _ in range(5):
            with comm.split(0) or comm as sub:
                sub.all_reduce(array)
            del sub
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with comm.split(0) or comm as sub:
                sub.all_reduce(array)
            del sub
        gc.collect()
        return len(os.listdir("/proc/self/fd")) - before

    ranks = children()
    shm, open_here = sorted(os.listdir("/dev/shm")), len(os.listdir("/proc/self/fd"))
    assert spawn(rank, 3, timeout_s=60) == [0, 0, 0]
    assert sorted(os.listdir("/dev/shm")) == shm
    assert len(os.listdir("/proc/self/fd")) == open_here
    assert children() == ranks


PROGRAM = """
import os, sys, time
import numpy as np
import ringtree
def work(comm):
    comm.barrier()
    try:
        os.write(1, b"ready\\n")
        while True:
            {busy}
    finally:
        os.write(1, b"left\\n")
if __name__ == "__main__":
    ringtree.spawn(work, 3)
"""


@native
@pytest.mark.parametrize(
    "busy",
    [
        "comm.all_reduce(np.ones(1 << 18))",
        "time.sleep(60)",
        "comm.irecv(np.ones(1)).wait()",
        pytest.param("comm.recv(np.ones(1), 0)", marks=pytest.mark.slow),
        pytest.param("comm.probe()", marks=pytest.mark.slow),
        pytest.param("ringtree.wait_any([comm.irecv(np.ones(1)), comm.irecv(np.ones(1), 2)])", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_ends_everything(tmp_path: Path, busy: str) -> None:
    """As a terminal does it: SIGINT to the whole foreground group, the parent and the ranks that it forked."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(busy=busy))
    shm = sorted(os.listdir("/dev/shm"))
    process = subprocess.Popen(
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=interruptible,  # noqa: PLW1509  # it takes no lock
    )  # fmt: skip
    try:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    except BaseException:  # a test that fails leaves nobody running either
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert out == 3 * "left\n"  # each rank by itself: nobody had to be killed
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
    with pytest.raises(ProcessLookupError):  # no rank is left, nor a zombie
        os.killpg(process.pid, 0)
    assert sorted(os.listdir("/dev/shm")) == shm


@native
def test_groups_open_at_exit_are_closed(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "import numpy as np, ringtree\ncomm = ringtree.init()\nx = comm.empty(10)\nx[:] = 1\nsub = comm.split(0)\n"
        "work = sub.all_reduce(np.ones(1 << 20), async_op=True)\nprint(comm.all_reduce(x).sum())\n"
    )
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "10.0\n", "")


ONE_SIDED_CALL = """import atexit, sys, numpy as np, ringtree
from ringtree import mpi
atexit.register(print, "and other functions run")
print("stdout is flushed")
def call(broadcast, rank):
    if rank == 0:
        broadcast(np.ones(4), 0)
    sys.exit(CODE)
"""
PRINTED = ("and other functions run", "stdout is flushed")
DOORS = {
    "numpy": "comm = ringtree.init()\ncall(comm.broadcast, comm.rank)\n",
    "mpi": "comm = mpi.COMM_WORLD\ncall(comm.Bcast, comm.rank)\n",
}


@native
@pytest.mark.parametrize(("door", "code", "expected"), [("numpy", 0, 1), ("numpy", 3, 3), ("mpi", 0, 1)])
def test_a_mismatch_at_exit_is_one_line_and_a_failure(tmp_path: Path, door: str, code: int, expected: int) -> None:
    file = tmp_path / "program.py"
    file.write_text(ONE_SIDED_CALL.replace("CODE", str(code) if code == 0 else f"{code} * (rank == 0)") + DOORS[door])
    command = [sys.executable, "-m", "ringtree.cli", "run", "-n", "2", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] {line}" for rank in range(2) for line in PRINTED]
    line, end = done.stderr.splitlines()
    assert line.startswith("[0] ringtree: rank 1 left the group without call 1, which rank 0 made: broadcast(")
    assert end == f"ringtree run: rank 0 exited with code {expected}"


@native
def test_an_error_that_the_program_has_caught_is_not_reported_at_exit(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "import numpy as np, ringtree\ncomm = ringtree.init()\n"
        "try:\n    comm.all_reduce(np.ones(1 + comm.rank))\nexcept ringtree.Mismatch:\n    print('caught')\n"
    )
    command = [sys.executable, "-m", "ringtree.cli", "run", "-n", "2", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, ["[0]", "[1]", "caught", "caught"], "")


@native
def test_a_rank_that_ends_leaves_all_its_groups() -> None:
    """The remaining ranks do not take it for dead."""

    def rank(comm: Communicator) -> int:
        other = comm.duplicate()
        if comm.rank == 0:
            return 0
        time.sleep(0.3)
        return int(other.group([1, 2]).all_reduce(1))

    assert spawn(rank, 3, timeout_s=60) == [0, 2, 2]


def test_ctrl_c_counts_for_a_rank_that_hears_of_anothers_first() -> None:
    """The others' error, with this rank's own interrupt while it is printed, would be no report of either."""
    within = Event()

    def act(comm: Communicator) -> str:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Python has none where it is started to ignore it
        process = int(comm.all_gather(np.array([os.getpid()]))[1, 0])
        comm.barrier()  # the next one is a call of the engine's alone
        try:
            if comm.rank == 0:
                within.wait()
                comm._fail("was interrupted in barrier")
                time.sleep(0.005)
                os.kill(process, signal.SIGINT)
            within.set()
            comm.barrier()
            time.sleep(1)
            return "nothing"
        except (KeyboardInterrupt, Poisoned) as error:
            return type(error).__name__

    assert spawn(act, 2) == ["Poisoned", "KeyboardInterrupt"]


def test_programs_that_a_rank_starts_have_no_descriptor_of_its_groups() -> None:
    def act(comm: Communicator) -> list[str]:
        half = comm.split(0)
        array = comm.empty(3)
        found = []
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # that of the listing itself
                if os.readlink(f"/proc/self/fd/{name}").startswith("/memfd:ringtree"):
                    found.append("inherited" if os.get_inheritable(int(name)) else "own")
        del array, half
        return found

    for found in spawn(act, 2):
        assert found
        assert "inherited" not in found
