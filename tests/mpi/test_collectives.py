"""Collectives of buffers: what arrives where, for each form of argument that mpi4py's programs use."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest

from ringtree import mpi as MPI
from tests.mpi.tables import Row, check, ints


def bcast(comm: MPI.Comm) -> Any:
    buffer = array("d", [comm.rank + 0.5] * 3)
    comm.Bcast([buffer, 2, MPI.DOUBLE], root=comm.size - 1)
    return buffer


def gather(comm: MPI.Comm) -> Any:
    root, out = comm.size - 1, ints(*[-1] * 2 * comm.size)
    comm.Gather([ints(comm.rank, 7), MPI.INT], [out, 2, MPI.INT] if comm.rank == root else None, root=root)
    return out


def gather_in_place(comm: MPI.Comm) -> Any:
    out = np.full(comm.size, float(comm.rank))
    comm.Gather(MPI.IN_PLACE if comm.rank == 0 else out[:1], out if comm.rank == 0 else None)
    return out


def scatter(comm: MPI.Comm) -> Any:
    out = bytearray(2)
    comm.Scatter(bytes(range(2 * comm.size)) if comm.rank == 0 else None, out)
    return list(out)


def scatter_in_place(comm: MPI.Comm) -> Any:
    x = np.arange(comm.size) * 5 if comm.rank == 0 else np.zeros(1, int)
    comm.Scatter(x if comm.rank == 0 else None, MPI.IN_PLACE if comm.rank == 0 else x)
    return x[0]


def all_gather(comm: MPI.Comm) -> Any:
    out = np.zeros((comm.size, 2), bool)
    comm.Allgather([np.array([comm.rank == 1, True]), MPI.BOOL], out)
    return out


def all_gather_in_place(comm: MPI.Comm) -> Any:
    out = bytearray(8 * comm.size)
    out[3 * comm.rank : 3 * comm.rank + 3] = bytes([comm.rank]) * 3
    comm.Allgather(MPI.IN_PLACE, [out, 3, MPI.BYTE])
    return list(out[: 3 * comm.size])


def all_to_all(comm: MPI.Comm) -> Any:
    out = np.zeros(comm.size, np.longdouble)  # a type that the engine knows only as bytes
    comm.Alltoall(np.arange(comm.size, dtype=np.longdouble) + 10 * comm.rank, out)
    return out.astype(int)


def all_to_all_in_place(comm: MPI.Comm) -> Any:
    x = ints(*(10 * comm.rank + r for r in range(comm.size)))
    comm.Alltoall(MPI.IN_PLACE, x)
    return x


def reduce(comm: MPI.Comm) -> Any:
    out = ints(-1, -1)
    comm.Reduce([ints(comm.rank, 2), MPI.INT], [out, MPI.INT], op=MPI.MAX, root=comm.size - 1)
    return out


def all_reduce(comm: MPI.Comm) -> Any:
    out = array("f", [0, 0])
    comm.Allreduce(array("f", [comm.rank, 1]), [out, MPI.FLOAT])
    return out


def all_reduce_in_place(comm: MPI.Comm) -> Any:
    x = np.array([comm.rank + 1, 2], np.int64)
    comm.Allreduce(None, x, MPI.PROD)
    return x


def all_reduce_by_name(comm: MPI.Comm) -> Any:
    out = np.zeros(5)
    comm.Allreduce(np.ones(5), out, algorithm="ring")
    return out


def all_reduce_in_float32(comm: MPI.Comm) -> Any:
    """256 and numbers of 3/32 in float16, whose last bit is 1/4 there: two of them count if they are not rounded away
    one by one."""
    out, balanced = np.zeros(1, np.float16), np.zeros(1, np.float16)
    x = np.array([0.09375 if comm.rank else 256], np.float16)
    comm.Allreduce(x, out, accumulate="float32")
    comm.Allreduce(x, balanced, deterministic="ranks")
    return [out, balanced]


def reduce_scatter_block(comm: MPI.Comm) -> Any:
    out = ints(0, 0)
    comm.Reduce_scatter_block(ints(*range(2 * comm.size)), out)
    return out


def reduce_scatter_block_in_place(comm: MPI.Comm) -> Any:
    x = ints(*range(comm.size))
    comm.Reduce_scatter_block(MPI.IN_PLACE, x)
    return x[0]


def scan(comm: MPI.Comm) -> Any:
    before, upto = ints(-1), ints(-1)
    comm.Scan([ints(comm.rank + 1), MPI.INT], upto)
    comm.Exscan(ints(comm.rank + 1), before)
    return [before, upto]


def matrix(comm: MPI.Comm) -> Any:
    """A product of matrices, which does not commute: it is taken in rank order."""

    def product(a: memoryview, b: memoryview, datatype: MPI.Datatype) -> None:
        left, right = (np.frombuffer(m, datatype.dtype).reshape(2, 2) for m in (a, b))
        right[:] = left @ right

    op = MPI.Op.Create(product, commute=False)
    x = np.array([[1, comm.rank], [0, 2]])
    comm.Allreduce(MPI.IN_PLACE, x, op)
    return x


def started(comm: MPI.Comm) -> Any:
    total, everyone = np.zeros(1), np.zeros(comm.size)
    requests = [
        comm.Iallreduce(np.ones(1), total),
        comm.Ibarrier(),
        comm.Iallgather(np.full(1, comm.rank + 0.0), everyone),
    ]
    assert all(requests)
    MPI.Request.Waitall(requests)
    assert requests == [MPI.REQUEST_NULL] * 3
    return [total, everyone]


def nothing(comm: MPI.Comm) -> Any:
    comm.Barrier()
    comm.Bcast([None, "B"])
    comm.Allgather(MPI.IN_PLACE, [bytearray(4), 0, MPI.BYTE])
    comm.Allreduce(np.empty(0), np.empty(0))
    return None


POWERS = [np.array([[1, s], [0, 2]]) for s in range(3)]

ROWS: list[Row] = [
    ("Bcast", bcast, lambda r, n: [n - 0.5, n - 0.5, r + 0.5]),
    ("Gather", gather, lambda r, n: [v for s in range(n) for v in (s, 7)] if r == n - 1 else [-1] * 2 * n),
    ("Gather in place", gather_in_place, lambda r, n: list(range(n)) if r == 0 else [r] * n),
    ("Scatter", scatter, lambda r, n: [2 * r, 2 * r + 1]),
    ("Scatter in place", scatter_in_place, lambda r, n: 5 * r),
    ("Allgather", all_gather, lambda r, n: [[s == 1, True] for s in range(n)]),
    ("Allgather in place", all_gather_in_place, lambda r, n: [s for s in range(n) for _ in range(3)]),
    ("Alltoall", all_to_all, lambda r, n: [10 * s + r for s in range(n)]),
    ("Alltoall in place", all_to_all_in_place, lambda r, n: [10 * s + r for s in range(n)]),
    ("Reduce", reduce, lambda r, n: [n - 1, 2] if r == n - 1 else [-1, -1]),
    ("Allreduce", all_reduce, lambda r, n: [n * (n - 1) / 2, n]),
    ("Allreduce in place", all_reduce_in_place, lambda r, n: [int(np.prod(range(1, n + 1))), 2**n]),
    ("Allreduce by name", all_reduce_by_name, lambda r, n: [n] * 5),
    ("Allreduce in float32", all_reduce_in_float32, lambda r, n: [[256.25 if n == 3 else 256], [256]]),
    ("Reduce_scatter_block", reduce_scatter_block, lambda r, n: [2 * r * n, (2 * r + 1) * n]),
    ("Reduce_scatter_block in place", reduce_scatter_block_in_place, lambda r, n: r * n),
    ("scan", scan, lambda r, n: [[r * (r + 1) // 2 if r else -1], [(r + 1) * (r + 2) // 2]]),
    ("matrix", matrix, lambda r, n: np.linalg.multi_dot([np.eye(2, dtype=int), np.eye(2, dtype=int), *POWERS[:n]])),
    ("started", started, lambda r, n: [[n], list(range(n))]),
    ("nothing", nothing, lambda r, n: None),
]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_collectives(ranks: int) -> None:
    check(ROWS, ranks)


def test_a_root_that_is_no_rank_is_refused() -> None:
    comm = MPI.COMM_WORLD
    for call in (comm.Bcast, lambda x, root: comm.Reduce(x, x.copy(), root=root)):
        with pytest.raises(MPI.Exception, match=r"root 5: expected a rank of this group, 0\.\.0") as caught:
            call(np.ones(2), root=5)
        assert caught.value.Get_error_class() == MPI.ERR_ROOT
        assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    "call",
    [
        lambda comm, x, out: comm.Bcast(x),
        lambda comm, x, out: comm.Gather(x, out),
        lambda comm, x, out: comm.Scatter(x, out),
        lambda comm, x, out: comm.Allgather(x, out),
        lambda comm, x, out: comm.Alltoall(x, out),
        lambda comm, x, out: comm.Reduce(x, out),
        lambda comm, x, out: comm.Allreduce(x, out),
        lambda comm, x, out: comm.Reduce_scatter_block(x, out),
        lambda comm, x, out: comm.Reduce_scatter(x, out),
        lambda comm, x, out: comm.Scan(x, out),
        lambda comm, x, out: comm.Scatterv(x, out),
        lambda comm, x, out: comm.Allgatherv([x, 1, MPI.DOUBLE.Create_vector(2, 1, 1)], out),
    ],
)
def test_calls_of_buffers_return_nothing(call: Any) -> None:
    x, out = np.arange(2.0), np.zeros(2)
    assert call(MPI.COMM_WORLD, x, out) is None


def logical(comm: MPI.Comm) -> list[list[int]]:
    """Of 5 on each rank: the results of a scan, an exclusive scan and a reduction, by operation."""
    found = []
    for op in (MPI.LAND, MPI.LOR, MPI.LXOR):
        scanned, before, reduced, x = ints(-1), ints(-1), ints(-1), ints(5)
        comm.Iscan(x, scanned, op).Wait()
        comm.Exscan(x, before, op)
        comm.Allreduce(x, reduced, op)
        found.append([int(scanned[0]), int(before[0]), int(reduced[0])])
    return found


def joined_logically(ranks: int, odd: bool) -> int:
    """-1 of no operand; one operand stays as it is."""
    return (-1, 5)[ranks] if ranks < 2 else ranks % 2 if odd else 1


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_logical_operation_keeps_a_single_operand(ranks: int) -> None:
    """As MPICH and Open MPI do, where there is nothing to join it with."""
    check(
        [
            (
                "logical",
                logical,
                lambda r, n: [[joined_logically(k, odd) for k in (r + 1, r, n)] for odd in (False, False, True)],
            )
        ],
        ranks,
    )
