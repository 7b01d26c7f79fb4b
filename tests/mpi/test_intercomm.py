"""Intercommunicators of two groups that differ in size and lie mixed: messages, collectives, and others of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import mpi as MPI
from tests.mpi.tables import ints, plain

HERE = {0: [1, 3], 1: [0, 2, 4]}
"""Each group's ranks of the whole."""


def groups(comm: MPI.Comm) -> tuple[int, Any]:
    """This rank's group, and the Intercomm."""
    mine = comm.rank % 2 ^ 1
    local = MPI.Intracomm(comm).Split(mine, comm.rank)
    return mine, local.Create_intercomm(0, comm, HERE[1 - mine][0], 7)  # type: ignore[attr-defined]


def messages(mine: int, comm: Any) -> Any:
    """Each rank sends to all of the other group, which receive from anyone."""
    begun = [comm.isend((mine, comm.rank), rank, tag=comm.rank) for rank in range(comm.remote_size)]
    found = []
    for _ in range(comm.remote_size):
        status = MPI.Status()
        found.append((comm.recv(source=MPI.ANY_SOURCE, status=status), status.Get_source()))
    MPI.Request.Waitall(begun)
    return sorted(found)


def buffers(mine: int, comm: Any) -> Any:
    out, status = ints(-1), MPI.Status()
    peer = comm.rank if comm.rank < comm.remote_size else MPI.PROC_NULL
    comm.Sendrecv(ints(10 * mine + comm.rank), peer, 0, out, peer, 0, status)
    return out, status.Get_source() == peer


def root_of(mine: int, comm: Any) -> int:
    """The root is rank 1 of group 0."""
    return 1 if mine else MPI.ROOT if comm.rank == 1 else MPI.PROC_NULL


def rooted(mine: int, comm: Any) -> Any:
    root, n = root_of(mine, comm), comm.remote_size
    x, total, blocks = ints(5, 6) if root == MPI.ROOT else ints(0, 0), ints(-1), ints(*[-1] * 2 * n)
    comm.Bcast(x, root)
    comm.Reduce(ints(comm.rank + 1), total, root=root)
    comm.Gather(ints(comm.rank, 7), blocks, root)
    part = ints(-1)
    comm.Scatter(np.arange(n, dtype=np.int32) + 20, part, root)
    comm.Gatherv(ints(*[comm.rank] * comm.rank), [uneven := ints(*[-1] * 3), [0, 1, 2]], root)
    return x, total, blocks, part, uneven


def to_all(mine: int, comm: Any) -> Any:
    n = comm.remote_size
    every, total, mixed = ints(*[-1] * n), ints(-1), ints(*[-1] * n)
    comm.Allgather(ints(10 * mine + comm.rank), every)
    comm.Allreduce(ints(comm.rank + 1), total)
    comm.Alltoall(np.arange(n, dtype=np.int32) + 10 * comm.rank, mixed)
    comm.Barrier()
    return every, total, mixed


def objects(mine: int, comm: Any) -> Any:
    root = root_of(mine, comm)
    return (
        comm.bcast("a", root),
        comm.gather(comm.rank, root),
        comm.scatter([*"xyz"] if root == MPI.ROOT else None, root),
        comm.allgather((mine, comm.rank)),
        comm.allreduce(comm.rank + 1),
        comm.alltoall([comm.rank * 10 + rank for rank in range(comm.remote_size)]),
    )


def merged(mine: int, comm: Any) -> Any:
    """Group 1 first."""
    whole = comm.Merge(mine == 0)
    return whole.allgather((mine, comm.rank))


def parted(mine: int, comm: Any) -> Any:
    """The ranks 0 of both groups, then the ranks 1; rank 2 has nobody there."""
    part = comm.Split(comm.rank)
    return part.allgather((mine, comm.rank)) if part else None


def copied(mine: int, comm: Any) -> Any:
    other = comm.Dup()
    found = other.allgather(comm.rank), other.Compare(comm) == MPI.CONGRUENT
    other.Free()
    return found, not other, comm.Get_group().members, comm.Get_remote_group().members


def expected(mine: int, rank: int) -> list[Any]:
    n, size = (3, 2) if mine == 0 else (2, 3)
    other, root = 1 - mine, mine == 0 and rank == 1
    peer = rank if rank < n else None
    return [
        [((other, r), r) for r in range(n)],
        ([-1 if peer is None else 10 * other + peer], True),
        (
            [5, 6] if mine or root else [0, 0],
            [6] if root else [-1],
            [0, 7, 1, 7, 2, 7] if root else [-1] * 2 * n,
            [20 + rank] if mine else [-1],
            [1, 2, 2] if root else [-1] * 3,
        ),
        (
            [10 * other + r for r in range(n)],
            [n * (n + 1) // 2],
            [10 * r + rank for r in range(n)],
        ),
        (
            "a" if mine else None,
            [0, 1, 2] if root else None,
            "xyz"[rank] if mine else None,
            [(other, r) for r in range(n)],
            n * (n + 1) // 2,
            [10 * r + rank for r in range(n)],
        ),
        [*((1, r) for r in range(3)), *((0, r) for r in range(2))],
        [(other, rank)] if rank < min(n, size) else None,
        (([*range(n)], True), True, tuple(HERE[mine]), tuple(HERE[other])),
    ]


def work(comm: ringtree.Communicator) -> Any:
    mine, both = groups(MPI.Intracomm(comm))
    calls = (messages, buffers, rooted, to_all, objects, merged, parted, copied)
    results = []
    for call in calls:
        results.append(plain(call(mine, both)))
        both.Barrier()  # or the wildcards of one would take the messages of the next
    return mine, both.rank, results


def test_two_groups_call_each_other() -> None:
    for rank, (mine, place, results) in enumerate(ringtree.spawn(work, 5, timeout_s=60)):
        assert HERE[mine][place] == rank
        for result, wanted in zip(results, expected(mine, place), strict=True):
            assert result == plain(wanted), f"rank {place} of group {mine}"


def refused(comm: ringtree.Communicator) -> Any:
    _, both = groups(MPI.Intracomm(comm))
    with pytest.raises(NotImplementedError, match=r"Intercomm.Merge"):
        both.Scan(ints(1), ints(1))
    with pytest.raises(MPI.Exception, match="root 9"):
        both.bcast(None, 9)
    with pytest.raises(MPI.Exception, match="no rank 5 in the other group"):
        both.send(None, 5)
    with pytest.raises(TypeError, match="as many groups"):
        MPI.Intracomm(both)


def test_what_two_groups_lack_is_refused() -> None:
    ringtree.spawn(refused, 5, timeout_s=60)
