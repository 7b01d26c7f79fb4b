"""The MPI front end over hosts: the rows of tests/mpi, by ranks of two hosts."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import mpi as MPI
from tests.mpi.tables import plain
from tests.runtime.hosts.conftest import HostPools, Layout
from tests.runtime.hosts.lab import Lab
from tests.runtime.hosts.started import Started, variables_of

TABLES = ("test_collectives", "test_comm", "test_messages", "test_objects", "test_uneven")


def rows_done(comm: ringtree.Communicator, table: str) -> list[Any]:
    """The result of each row of a table."""
    results = []
    for _, call, _ in import_module(f"tests.mpi.{table}").ROWS:
        results.append(plain(call(MPI.Intracomm(comm))))
        comm.barrier()  # or one row's wildcards would take the next row's messages
    return results


@pytest.mark.parametrize("layout", [(2, 1), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("table", TABLES)
def test_the_rows_hold_over_hosts(host_pools: HostPools, layout: Layout, table: str) -> None:
    rows, size = import_module(f"tests.mpi.{table}").ROWS, sum(layout)
    for rank, results in enumerate(host_pools(layout).run(rows_done, table)):
        for (name, _, expected), result in zip(rows, results, strict=True):
            assert result == plain(expected(rank, size)), f"{name} on rank {rank}"


def shared(comm: ringtree.Communicator) -> tuple[int, int]:
    """The size of this rank's group of its host, and its rank there."""
    mine = MPI.Intracomm(comm).Split_type(MPI.COMM_TYPE_SHARED)
    return mine.Get_size(), mine.Get_rank()


def test_split_type_gives_the_ranks_of_a_host(host_pools: HostPools) -> None:
    assert host_pools((2, 1)).run(shared) == [(2, 0), (2, 1), (1, 0)]


def of_the_world() -> str:
    """What a program does that has changed its import of mpi4py alone."""
    world = MPI.COMM_WORLD
    gathered = world.allgather(world.Get_rank())
    total = np.zeros(1)
    world.Allreduce(np.array([world.rank + 1.0]), total)
    return f"{gathered} {total[0]:g}"


@pytest.fixture
def started() -> Iterator[Started]:
    processes = Started()
    yield processes
    processes.stop()


def test_the_world_of_a_program_is_that_of_its_launcher(started: Started, lab: Lab, ports: Iterator[int]) -> None:
    port = next(ports)
    for rank in range(3):
        started.start(of_the_world, lab, rank % 2, **variables_of(lab, port, rank, 3))
    assert started.finish() == ["[0, 1, 2] 6"] * 3
