"""What other processes see of a world of ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ringtree import _native
from ringtree.runtime.observing.own_processes import shared_memories
from tests.runtime.observing.hanging import found, hanging_job
from tests.waiting import until


def test_who_waits_for_whom(tmp_path: Path) -> None:
    with hanging_job(tmp_path) as world:
        first, second, third = world.ranks
        assert [rank.state for rank in world.ranks] == ["running"] * 3 and world.readable and not world.failure
        (waits,) = first.waits
        assert (waits.peer, waits.group, waits.where) == (1, "0, 1", "broadcast, call 1")
        assert 0 < time.monotonic_ns() - waits.since_ns < 300e9 and waits.deadline_ns - waits.since_ns == 500e9
        (waits,) = second.waits
        assert (waits.peer, waits.group) == (2, "") and waits.where.startswith("recv") and "tag 7" in waits.where
        assert not third.waits and (third.calls, third.last) == (2, "all_reduce(float32, sum, count 8)")
        assert world.stragglers() == (2,)
        for rank in world.ranks:
            assert rank.pid is not None and Path(f"/proc/{rank.pid}/environ").read_bytes().count(b"RINGTREE_RANK")


def test_looking_disturbs_nobody_and_ended_jobs_are_gone(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, ringtree, sys\n"
        "comm = ringtree.init(timeout_s=100)\n"
        "x, n = np.ones(1000, np.float32), 0\n"
        "go = np.ones(1, np.int32)\n"
        "import os\n"
        "while True:\n"
        "    comm.all_reduce(x)\n"
        "    go[0] = comm.rank != 0 or not os.path.exists(sys.argv[1])\n"
        "    if comm.all_reduce(go, op='min')[0] == 0: break\n"
    )
    stop = tmp_path / "stop"
    process = subprocess.Popen([sys.executable, "-m", "ringtree.cli", "run", "-n", "2", str(program), str(stop)])
    until(lambda: any(rank.calls > 100 for world in found(program) for rank in world.ranks))
    for _ in range(10):
        (world,) = found(program)
        assert [rank.state for rank in world.ranks] == ["running"] * 2
    stop.touch()
    assert process.wait() == 0
    assert not found(program)


def test_a_wait_is_written_down_and_taken_back(tmp_path: Path) -> None:
    program, go, stop = tmp_path / "program.py", tmp_path / "go", tmp_path / "stop"
    program.write_text(
        "import os, sys, time\n"
        "import ringtree\n"
        "comm = ringtree.init(timeout_s=100)\n"
        "def until(path):\n"
        "    while not os.path.exists(path): time.sleep(0.01)\n"
        "if comm.rank == 1: until(sys.argv[1])\n"
        "comm.barrier()\n"
        "until(sys.argv[2])\n"
    )
    command = [sys.executable, "-m", "ringtree.cli", "run", "-n", "2", str(program), str(go), str(stop)]
    process = subprocess.Popen(command)
    until(lambda: any(world.ranks[0].waits for world in found(program)))
    (world,) = found(program)
    assert world.ranks[0].waits[0].where == "barrier, call 1" and world.stragglers() == (1,)
    go.touch()
    until(lambda: all(rank.calls == 1 for rank in found(program)[0].ranks) and not found(program)[0].ranks[0].waits)
    assert not found(program)[0].stragglers()
    stop.touch()
    assert process.wait() == 0


def test_ranks_that_are_threads_are_passed_over(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import ringtree, sys\n"
        "def rank(comm):\n"
        "    comm.barrier()\n"
        "    if comm.rank == 0: print('here', flush=True); sys.stdin.read()\n"
        "    comm.barrier()\n"
        "ringtree.spawn(rank, 2, threads=True)\n"
    )
    process = subprocess.Popen([sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"here\n"
    assert any(process.pid in memory.holders for memory in shared_memories())
    assert not found(program)
    process.communicate()
    assert process.returncode == 0


def test_other_memory_is_no_world() -> None:
    for data in (b"", bytes(10_000), b"\xff" * 10_000, os.urandom(5000)):
        descriptor = os.memfd_create("ringtree")
        os.write(descriptor, data)
        assert _native.observe(descriptor) is None
        os.close(descriptor)


@pytest.mark.parametrize("seed", range(20))
def test_broken_memory_is_read_without_harm(seed: int) -> None:
    draw = np.random.default_rng(seed)
    nbytes = _native.segment_bytes(2, 8, 4096)
    descriptor = os.memfd_create("ringtree")
    os.ftruncate(descriptor, nbytes)
    os.pwrite(descriptor, np.array([0x72696E6774720003, (2 << 45) | (8 << 32) | 4096], np.uint64).tobytes(), 0)
    whole = _native.observe(descriptor)
    assert whole is not None and whole["readable"] and len(whole["members"]) == 2
    for at, length in ((64, 2048), (4096, 640), (nbytes - 8192, 8192)):  # its failure, members, waits
        os.pwrite(descriptor, draw.bytes(length), at)
    broken = _native.observe(descriptor)
    assert broken is not None and len(broken["members"]) == 2
    os.pwrite(descriptor, draw.bytes(8), 8)  # the layout
    _native.observe(descriptor)
    os.pwrite(descriptor, np.array([0x72696E6774720004], np.uint64).tobytes(), 0)
    other = _native.observe(descriptor)
    assert other is not None and not other["readable"]
    os.close(descriptor)
