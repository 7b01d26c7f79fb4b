"""ringtree.mpi's windows and intercommunicators over hosts: whole and ordered as within one."""

from __future__ import annotations

import pytest

from ringtree import mpi as MPI
from ringtree.runtime.communicator.communicator import Communicator
from tests.mpi import test_intercomm, test_windows
from tests.mpi.tables import plain
from tests.runtime.hosts.conftest import HostPools

WITHIN_A_HOST = {"Allocate_shared"}


def windows(comm: Communicator) -> None:
    """The table of one host."""
    for name, call, expected in test_windows.ROWS:
        if name not in WITHIN_A_HOST:
            assert plain(call(MPI.Intracomm(comm))) == plain(expected(comm.rank, comm.size)), name
            comm.barrier()


def test_windows_over_hosts(host_pools: HostPools) -> None:
    host_pools((2, 1)).run(windows)


def shared(comm: Communicator) -> None:
    """Shared memory is refused over hosts, and there within each."""
    with pytest.raises(OSError, match="expected the ranks of one"):
        MPI.Win.Allocate_shared(8, comm=MPI.Intracomm(comm))
    test_windows.side_by_side(MPI.Intracomm(comm).Split_type(MPI.COMM_TYPE_SHARED))


def test_shared_memory_is_a_hosts(host_pools: HostPools) -> None:
    host_pools((2, 1)).run(shared)


def groups(comm: Communicator) -> None:
    """The table of one host."""
    mine, place, results = test_intercomm.work(comm)
    for result, wanted in zip(results, test_intercomm.expected(mine, place), strict=True):
        assert result == plain(wanted)


def test_two_groups_over_hosts(host_pools: HostPools) -> None:
    host_pools((3, 2)).run(groups)
