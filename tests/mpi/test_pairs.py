"""Reductions of pairs of a value and its place, and operations that do not take the elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ringtree import mpi as MPI
from tests.mpi.tables import Row, check, ints


def pairs(kind: Any, *of: tuple[float, int]) -> np.ndarray[Any, Any]:
    return np.array([*of], kind.dtype)


def accumulated(comm: Any) -> Any:
    """The highest value of all ranks' with its place, in rank 0's window; before that, what was there."""
    win = MPI.Win.Allocate(32, 16, comm=comm)
    mine = win.tomemory().view(MPI.DOUBLE_INT.dtype)
    mine[:] = pairs(MPI.DOUBLE_INT, (-1.0, 9), (7.0, 9))
    win.Fence()
    given = [pairs(MPI.DOUBLE_INT, (comm.rank / 2, comm.rank), (7.0, comm.rank)), 2, MPI.DOUBLE_INT]
    win.Accumulate(given, 0, [0, 2, MPI.DOUBLE_INT], MPI.MAXLOC)
    win.Fence()
    seen, old = pairs(MPI.DOUBLE_INT, (0, 0)), pairs(MPI.DOUBLE_INT, (0, 0))
    win.Get_accumulate([pairs(MPI.DOUBLE_INT, (-5.0, 3)), 1, MPI.DOUBLE_INT], seen, comm.rank, op=MPI.MINLOC)
    win.Fetch_and_op(pairs(MPI.DOUBLE_INT, (-5.0, 1)), old, comm.rank, 0, MPI.MINLOC)
    win.Fence()
    found = mine.tolist()
    win.Free()
    return [*map(list, found)], list(seen[0].tolist()), list(old[0].tolist())


def reduced(comm: Any) -> Any:
    """Long doubles with their places, which the engine has no arithmetic for."""
    given, out = pairs(MPI.LONG_DOUBLE_INT, (comm.rank % 2, comm.rank)), pairs(MPI.LONG_DOUBLE_INT, (0, 0))
    comm.Allreduce([given, MPI.LONG_DOUBLE_INT], [out, MPI.LONG_DOUBLE_INT], MPI.MINLOC)
    return float(out[0]["value"]), int(out[0]["index"])


ROWS: list[Row] = [
    (
        "windows",
        accumulated,
        lambda r, n: (
            [[-5.0, 1], [7.0, 9 if r else 0]],
            [-1.0, 9] if r else [(n - 1) / 2, n - 1],
            [-5.0, 3],
        ),
    ),
    ("long doubles", reduced, lambda r, n: (0.0, 0)),
]


@pytest.mark.parametrize("ranks", [1, 3])
def test_pairs(ranks: int) -> None:
    check(ROWS, ranks)


def test_pairs_within_a_rank() -> None:
    given, into = ints(3, 1, 9, 5, 4, 2), ints(4, 7, 9, 2, 4, 8)
    MPI.MAXLOC.Reduce_local([given, MPI.INT_INT], [into, MPI.INT_INT])
    assert into.tolist() == [4, 7, 9, 2, 4, 2]
    MPI.MINLOC.Reduce_local([given, MPI.INT_INT], [into, MPI.INT_INT])
    assert into.tolist() == [3, 1, 9, 2, 4, 2]
    assert MPI.Datatype.Get_value_index(MPI.DOUBLE, MPI.INT) == MPI.DOUBLE_INT
    assert MPI.Datatype.Get_value_index(MPI.INT, MPI.INT) == MPI.TWOINT
    assert not MPI.Datatype.Get_value_index(MPI.DOUBLE, MPI.DOUBLE)


ONE = np.ones(1)
PAIR = [ints(1, 1), MPI.INT_INT]
WIDE = np.ones(1, np.longdouble)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda win: win.Accumulate(ONE, 0, op=MPI.MAXLOC), "MAXLOC does not reduce elements of MPI.DOUBLE"),
        (lambda win: win.Accumulate(PAIR, 0, op=MPI.SUM), "SUM does not reduce elements of MPI.TWOINT"),
        (lambda win: win.Accumulate(ONE, 0, op=MPI.BAND), "BAND does not reduce elements of MPI.DOUBLE"),
        (lambda win: win.Accumulate(ONE, 0, op=MPI.Op.Create(print)), "user print does not accumulate"),
        (lambda _: MPI.SUM.Reduce_local(PAIR, PAIR), "SUM does not reduce elements of MPI.TWOINT"),
        (lambda _: MPI.REPLACE.Reduce_local(ONE, ONE), "REPLACE does not reduce buffers"),
        (lambda _: MPI.OP_NULL.Reduce_local(ONE, ONE), "OP_NULL does not reduce buffers"),
        (lambda _: MPI.COMM_SELF.Allreduce(ONE, ONE.copy(), MPI.BAND), "band of float64 is not supported"),
        (lambda _: MPI.COMM_SELF.Allreduce(WIDE, WIDE.copy(), MPI.REPLACE), "REPLACE does not reduce buffers"),
        (lambda _: MPI.COMM_SELF.Allreduce(WIDE, WIDE.copy(), MPI.MINLOC), "MINLOC does not reduce elements"),
    ],
)
def test_an_operation_that_does_not_take_the_elements_is_refused(call: Callable[[Any], None], expected: str) -> None:
    win = MPI.Win.Allocate(8, 8, comm=MPI.COMM_SELF)
    with pytest.raises(MPI.Exception, match=expected) as caught:
        call(win)
    assert caught.value == MPI.ERR_OP
    win.Free()
