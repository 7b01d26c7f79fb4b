"""Groups by the thousand: their cost, and that they are as safe as the world that they are made from."""

from __future__ import annotations

import gc
import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ringtree import PeerDied, RankFailed, spawn
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import available
from tests.waiting import Event, Naps

pytestmark = pytest.mark.skipif(not available("shm"), reason="the native engine is not built")


def resident_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def at_once(comm: Communicator, number: int) -> tuple[int, int]:
    """Groups of all, of a pair, of three, in turn; all alive at once, each used for a call and a message."""
    gc.collect()  # what the tests before have left
    message = np.ones(100)
    colours = [lambda r: 0, lambda r: r // 2, lambda r: min(r, 1)]
    comm.barrier()
    files, memory = open_files(), resident_kib()
    groups = [comm.split(colours[k % 3](comm.rank)) for k in range(number)]
    for group in groups:
        assert group is not None
        assert group.all_reduce(comm.rank) == sum(group.ranks)
        with group.batch() as b:
            b.send(message, (group.rank + 1) % group.size)
            b.recv(np.empty_like(message), (group.rank - 1) % group.size)
    costs = open_files() - files, resident_kib() - memory
    for group in groups:
        assert group is not None
        group.close()
    return costs


@pytest.mark.slow
@pytest.mark.parametrize("number", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_groups_at_once_cost_no_descriptor_and_little_memory(number: int) -> None:
    for files, memory_kib in spawn(at_once, 4, number, timeout_s=60):
        assert files == 0
        assert memory_kib < 100 * number


def in_a_loop(comm: Communicator, turns: int) -> tuple[int, int, int]:
    """Descriptors and mappings more after the last quarter of the turns than after the first; the KiB more after the
    quarter of least growth, for the heap of a process may grow once."""
    x = np.ones(5000, np.float32)
    costs = []
    for turn in range(turns):
        with comm.duplicate() as group:
            group.all_reduce(x)
        if (turn + 1) % (turns // 4) == 0:
            gc.collect()
            costs.append((open_files(), resident_kib(), Path("/proc/self/maps").read_text().count("\n")))
    files, memory_kib, mappings = zip(*costs, strict=True)
    growth_kib = min(after - before for before, after in pairwise(memory_kib))
    return files[-1] - files[0], growth_kib, mappings[-1] - mappings[0]


@pytest.mark.parametrize("turns", [100, pytest.param(2000, marks=pytest.mark.slow)])
def test_making_and_closing_them_in_a_loop_leaks_nothing(turns: int) -> None:
    for files, growth_kib, mappings in spawn(in_a_loop, 2, turns, timeout_s=60):
        assert files == 0
        assert growth_kib < 2 * (turns // 4)
        assert mappings < 20


def large_calls(comm: Communicator) -> None:
    """Staging and messages of a size that a sub-group reserves only when they come."""
    for turn in range(2):
        group = comm.split(0, key=-comm.rank)
        assert group is not None
        x = np.arange(300_000.0) + turn
        assert np.array_equal(group.all_reduce(x, algorithm="ring"), x * comm.size)
        assert np.array_equal(group.all_to_all(x[: comm.size * 1000])[:1000], x[group.rank * 1000 :][:1000])
        with group.batch() as b:
            b.send(x, (group.rank + 1) % comm.size)
            got = b.recv(np.empty_like(x), (group.rank - 1) % comm.size)
        assert np.array_equal(got, x)
        group.close()


@pytest.mark.parametrize("threads", [False, True])
def test_large_calls(threads: bool) -> None:
    spawn(large_calls, 3, engine="shm", threads=threads, timeout_s=60)


@pytest.mark.parametrize("parent_closed", [False, True])
def test_a_death_is_named_in_a_sub_group_within_a_second(parent_closed: bool, tmp_path: Path) -> None:
    """Also two generations down, when all that lies between is closed."""
    dies = Event()

    def rank(comm: Communicator) -> None:
        other = comm.split(0, key=-comm.rank)
        assert other is not None
        pair = other.split(0 if comm.rank in (1, 3) else None)
        if parent_closed:
            other.close()
            comm.close()
        if pair is None:
            return
        pair.barrier()
        if comm.rank == 3:
            time.sleep(0.1)  # the other waits by now
            dies.set()
            os.kill(os.getpid(), signal.SIGKILL)
        expected = r"^rank 3 died .* while rank 1 waited"
        with Naps(dies.is_set) as naps, pytest.raises(PeerDied, match=expected) as caught:
            pair.barrier()
        assert caught.value.args[1] == pair.ranks.index(3)
        (tmp_path / "naps").write_text(str(naps.count))

    with pytest.raises(RankFailed, match="rank 3 of 4 failed"):
        spawn(rank, 4, timeout_s=60)
    assert int((tmp_path / "naps").read_text()) < Naps.A_SECOND


def test_survivors_make_a_group_of_their_own(tmp_path: Path) -> None:
    """A rank that waits for no dead rank goes on: only members of the group are checked for death."""

    def rank(comm: Communicator) -> None:
        if comm.rank == 1:
            os._exit(9)
        time.sleep(0.2 if comm.rank else 0.5)  # rank 2 waits for rank 0, and looks around
        assert comm.group([0, 2]).all_reduce(1) == 2
        with pytest.raises(PeerDied, match="rank 1 died"):
            comm.group([0, 1, 2])
        (tmp_path / str(comm.rank)).touch()

    with pytest.raises(RankFailed, match="rank 1 of 3 failed"):
        spawn(rank, 3, timeout_s=60)
    assert {p.name for p in tmp_path.iterdir()} == {"0", "2"}


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("members", [(0, 1, 2), (2, 1, 0)])
def test_a_rank_that_left_is_not_waited_for(members: tuple[int, ...], threads: bool) -> None:
    """Neither by the bootstrap's leader, nor by a rank that looks for the leader."""

    def rank(comm: Communicator) -> None:
        if comm.rank == 0:
            return
        with pytest.raises(PeerDied, match=r"^rank 0 left the group while rank . waited for it in group\("):
            comm.group(members)

    spawn(rank, 3, threads=threads, timeout_s=60)
