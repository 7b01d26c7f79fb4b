"""Collectives of Python objects."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from ringtree import mpi as MPI
from tests.mpi.tables import Row, check

ROWS: list[Row] = [
    ("bcast", lambda c: c.bcast({"a": 1} if c.rank == c.size - 1 else 0, root=c.size - 1), lambda r, n: {"a": 1}),
    ("gather", lambda c: c.gather("x" * c.rank), lambda r, n: ["x" * s for s in range(n)] if r == 0 else None),
    ("scatter", lambda c: c.scatter(list("abc"[: c.size]) if c.rank == 0 else None), lambda r, n: "abc"[r]),
    ("allgather", lambda c: c.allgather((c.rank, None)), lambda r, n: [(s, None) for s in range(n)]),
    ("alltoall", lambda c: c.alltoall([(c.rank, d) for d in range(c.size)]), lambda r, n: [(s, r) for s in range(n)]),
    ("reduce", lambda c: c.reduce([c.rank], MPI.SUM, root=0), lambda r, n: list(range(n)) if r == 0 else None),
    ("allreduce", lambda c: c.allreduce(c.rank + 1, op=MPI.PROD), lambda r, n: int(np.prod(range(1, n + 1)))),
    ("allreduce of a function", lambda c: c.allreduce("abc"[c.rank], operator.add), lambda r, n: "abc"[:n]),
    ("allreduce maxloc", lambda c: c.allreduce((0, c.rank), MPI.MAXLOC), lambda r, n: (0, 0)),
    ("scan", lambda c: c.scan(c.rank), lambda r, n: r * (r + 1) // 2),
    ("exscan", lambda c: c.exscan(c.rank), lambda r, n: r * (r - 1) // 2 if r else None),
    ("barrier", lambda c: c.barrier(), lambda r, n: None),
]  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 3])
def test_objects(ranks: int) -> None:
    check(ROWS, ranks)


@pytest.mark.parametrize(
    ("op", "a", "b", "result"),
    [
        (MPI.SUM, 2, 3, 5), (MPI.PROD, 2, 3, 6), (MPI.MAX, "a", "b", "b"), (MPI.MIN, 2, 3, 2),
        (MPI.LAND, 1, 0, False), (MPI.LOR, 1, 0, True), (MPI.LXOR, 1, 1, False),
        (MPI.BAND, 6, 3, 2), (MPI.BOR, 6, 3, 7), (MPI.BXOR, 6, 3, 5),
        (MPI.MAXLOC, (4, 2), (4, 1), (4, 1)), (MPI.MINLOC, (3, 5), (4, 1), (3, 5)),
        (MPI.MINLOC, [3, 5], [3, 1], (3, 1)),
        (MPI.REPLACE, 2, 3, 3), (MPI.NO_OP, 2, 3, 2),
    ],
)  # fmt: skip
def test_an_op_reduces_two_objects(op: MPI.Op, a: Any, b: Any, result: Any) -> None:
    assert op(a, b) == result and op and op.is_predefined
    assert op.Is_commutative() is (op not in (MPI.REPLACE, MPI.NO_OP))


def test_the_null_op_reduces_nothing() -> None:
    with pytest.raises(ValueError, match="OP_NULL"):
        MPI.OP_NULL(1, 2)
    assert MPI.Op() == MPI.OP_NULL and MPI.Op(MPI.SUM) == MPI.SUM != MPI.PROD
    with pytest.raises(MPI.Exception, match="REPLACE does not reduce buffers") as caught:
        MPI.COMM_WORLD.Allreduce(np.ones(1), np.ones(1), MPI.REPLACE)
    assert caught.value == MPI.ERR_OP
