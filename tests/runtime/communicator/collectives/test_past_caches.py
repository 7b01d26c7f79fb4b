"""Arrays of more bytes than the last cache holds, whose copies go past the caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

COUNT = 12_000_037  # bytes a rank: 2 ranks touch 72 MB in an all_gather, and no line is whole at the end
Bytes = np.ndarray[Any, Any]


def content(rank: int, count: int = COUNT, start: int = 0) -> Bytes:
    """`count` elements of a rank's array from `start` on: 7 * position + 31 * rank, in a byte."""
    period = (np.arange(start, start + 256) * 7 + 31 * rank).astype(np.uint8)
    return np.resize(period, count)


def off_by(shift: int, count: int) -> Bytes:
    """An array that begins `shift` bytes behind the beginning of a line, and ends with a guard."""
    memory = np.full(count + 128, 0xEE, np.uint8)
    begin = -memory.ctypes.data % 64 + shift
    return memory[begin : begin + count + 1]


def filled(out: Bytes, want: Bytes) -> bool:
    return np.array_equal(out[:-1], want) and out[-1] == 0xEE


def moved(comm: Communicator) -> list[str]:
    n, me, wrong = comm.size, comm.rank, []
    every, part = np.concatenate([content(rank) for rank in range(n)]), content(me)
    last, whole = content(n - 1), content(me, n * COUNT)
    want = np.concatenate([content(peer, COUNT, start=me * COUNT) for peer in range(n)])
    for shift in (0, 3, 16):
        out, own = off_by(shift, n * COUNT), off_by(shift + 1, COUNT)
        comm.all_gather(part, out=out[:-1])
        gathered = filled(out, every)
        out[:-1] = 0
        comm.gather(part, root=1, out=out[:-1] if me == 1 else None)
        gathered &= me != 1 or filled(out, every)
        comm.scatter(every if me == 0 else None, root=0, out=own[:-1])
        scattered = filled(own, part)
        own[:-1] = part
        comm.broadcast(own[:-1], root=n - 1)
        scattered &= filled(own, last)
        mine = whole.copy()
        comm.all_to_all(mine, out=out[:-1])
        exchanged = filled(out, want)
        comm.all_to_all(mine, out=mine)
        exchanged &= np.array_equal(mine, want)
        wrong += [
            f"{name}, {shift} bytes off"
            for name, right in (("gathers", gathered), ("scatters", scattered), ("exchanges", exchanged))
            if not right
        ]
    return wrong


def summed(comm: Communicator) -> list[str]:
    """Reductions: apart from the input, in its place, and with a division at the end."""
    n, me, wrong = comm.size, comm.rank, []
    count = 6_000_007 * n
    x = content(me, count).astype(np.float32)
    total = np.sum([content(rank, count).astype(np.float32) for rank in range(n)], axis=0)
    block = total[me * count // n : (me + 1) * count // n]
    for op, want, part in (("sum", total, block), ("avg", total / np.float32(n), block / np.float32(n))):
        if not np.array_equal(comm.reduce_scatter(x, op=op), part):
            wrong.append(f"reduce_scatter by {op}")
        if not np.array_equal(comm.all_reduce(x, op=op), want):
            wrong.append(f"all_reduce by {op}")
        again = x.copy()
        if not np.array_equal(comm.all_reduce(again, op=op, out=again), want):
            wrong.append(f"all_reduce by {op} in place")
    return wrong


@pytest.mark.parametrize("check", [moved, summed])
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_long_arrays_arrive_whole(pools: Pools, ranks: int, check: Any) -> None:
    for wrong in pools("shm", ranks).run(check):
        assert not wrong, "\n".join(wrong)
