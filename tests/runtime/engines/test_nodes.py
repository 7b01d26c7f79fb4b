"""Ranks tell each other the NUMA nodes and the speed of their cores, here of a made-up machine."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ringtree import spawn
from ringtree.price import SharedMemory
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines import shm
from tests.machines.sysfs_trees import SysTree

USABLE = sorted(os.sched_getaffinity(0))


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SysTree:
    """A machine whose first usable core is on node 0, and all others on node 1."""
    if len(USABLE) < 2:
        pytest.skip("this process may use one core alone")
    monkeypatch.setattr(shm, "THIS", str(tmp_path))
    tree = SysTree(tmp_path)
    tree.two_nodes(USABLE)
    return tree


def planned(comm: Communicator) -> SharedMemory:
    assert isinstance(comm.where, SharedMemory)
    assert (comm.all_reduce(np.full(1 << 16, comm.rank, np.float32)) == comm.size * (comm.size - 1) / 2).all()
    assert (comm.empty(1 << 20, np.uint8) == 0).all()
    return comm.where


def on_own_cores(comm: Communicator) -> tuple[SharedMemory, SharedMemory]:
    """The world's plan, whose ranks could run anywhere, and that of a group of ranks that cannot."""
    os.sched_setaffinity(0, {USABLE[comm.rank % 2]})
    with comm.split(0) or comm as group:
        return planned(comm), planned(group)


def test_ranks_on_two_nodes_know_it(tree: SysTree) -> None:
    for world, group in spawn(on_own_cores, 4):
        assert world.node_of == () and group.node_of == (0, 1, 0, 1)


def test_a_world_of_pinned_ranks_knows_it(tree: SysTree) -> None:
    assert [memory.node_of for memory in spawn(planned, 2, pin=[USABLE[1], USABLE[0]])] == [(1, 0)] * 2


def test_one_rank_that_could_run_anywhere_leaves_it_unknown(tree: SysTree) -> None:
    def rank(comm: Communicator) -> tuple[int, ...]:
        os.sched_setaffinity(0, USABLE if comm.rank == 2 else {USABLE[comm.rank % 2]})
        with comm.split(0) or comm as group:
            return planned(group).node_of

    assert spawn(rank, 3) == [()] * 3


def test_ranks_on_one_node_are_planned_as_ever(tree: SysTree) -> None:
    def rank(comm: Communicator) -> tuple[int, ...]:
        os.sched_setaffinity(0, {USABLE[1]})
        with comm.split(0) or comm as group:
            return planned(group).node_of

    assert spawn(rank, 2) == [(), ()]


def test_the_slowest_core_of_the_group_counts(tree: SysTree) -> None:
    for core in USABLE:
        tree.write(f"sys/devices/system/cpu/cpu{core}/cpu_capacity", 1024 if core == USABLE[0] else 512)
    for world, group in spawn(on_own_cores, 2):
        assert world.speed == group.speed == 0.5
    assert [memory.speed for memory in spawn(planned, 1, pin=[USABLE[0]])] == [1.0]


def test_the_log_says_where_ranks_are(
    tree: SysTree, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RINGTREE_DEBUG", "info")
    spawn(planned, 2, pin=USABLE[:2])
    assert "ringtree: ranks on 2 NUMA nodes: 0, 1\n" in capfd.readouterr().err
    spawn(planned, 2)
    assert "NUMA" not in capfd.readouterr().err
