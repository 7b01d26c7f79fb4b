"""Reductions of elements that ringtree's engine has no arithmetic for, such as long double.

All operands travel as bytes to every rank, which joins them in rank order with numpy: n times the traffic of a real
reduction, for what few programs do.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from ringtree.mpi.messages.request import Request
from ringtree.mpi.op import ON_ARRAYS, Op, check, native
from ringtree.mpi.types.datatype import Datatype
from ringtree.mpi.types.memory import NumpyArray
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.types import LOGICAL

ALL = slice(None)
_PAIR = Datatype.fromcode("LONG_DOUBLE_INT").dtype


def is_foreign(x: NumpyArray, op: Any, fewest: int = 2) -> bool:
    """Whether a reduction of `x` by `op` is done here: numpy can, and the engine cannot. `fewest`: the least number of
    operands of a rank's result; of a single one the engine's logical operations make 0 or 1, and MPI's keep it."""
    if not isinstance(op, Op) or op.name not in ON_ARRAYS:
        return False
    keeps = fewest < 2 and op.native in LOGICAL and x.dtype.kind in "biuf"
    if not (keeps or x.dtype.char in "gG" or x.dtype == _PAIR):
        return False
    native(op)
    check(op.name, x.dtype)
    return True


def joined(
    comm: Communicator, x: NumpyArray, op: Op, out: NumpyArray | None, part: slice, ranks: int, how: dict[str, Any]
) -> Any:
    """Writes elements `part` of the reduction of the first `ranks` ranks' `x` to `out`; nothing where that is None or
    there are no ranks. A Request where `how` has async_op, which is all of `how` that counts here."""
    room = np.empty((comm.size, x.nbytes), np.uint8)
    work = comm.all_gather(x.view(np.uint8), out=room, async_op=bool(how.get("async_op")))

    def finish(_: Any) -> None:
        if out is not None and ranks:
            lines = room.reshape(-1).view(x.dtype).reshape(comm.size, -1)[:ranks, part]
            out[...] = reduce(ON_ARRAYS[op.name], lines).reshape(out.shape)

    if how.get("async_op"):
        return Request(work, finish)
    return finish(None)
