"""Calls of a communicator with arguments of any kind: a mistake is a ValueError or a TypeError, in words."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import ringtree

METHODS = (
    "all_gather", "all_gather_coalesced", "all_gather_v", "all_reduce", "all_reduce_coalesced", "all_reduce_packed",
    "all_to_all", "all_to_all_v", "barrier", "broadcast", "broadcast_coalesced", "exscan", "gather", "gather_v",
    "reduce", "reduce_scatter", "reduce_scatter_v", "scan", "scatter", "scatter_v", "all_reduce_object",
    "gather_object", "split", "group", "send", "isend", "recv", "irecv", "iprobe", "sendrecv", "chosen",
    "copy", "set_timeout", "put", "get", "signal", "wait_signal", "batch", "duplicate", "hosts", "mesh",
    "exchange_parts", "where",
)  # fmt: skip
NAMES = (
    "op", "out", "root", "dtype", "algorithm", "deterministic", "accumulate", "async_op", "counts", "tag", "at_most",
    "src", "dst", "timeout_s",
)  # fmt: skip
REFUSALS = (ValueError, TypeError, NotImplementedError, ringtree.TimedOut)
"""What a call with wrong arguments may raise; TimedOut: a receive of what nobody sends."""
SEEDS = [
    bytes([3, 0, 0, 1, 0]),
    bytes([3, 1, 1, 1, 0, 1, 12]),
    bytes([12, 1, 2, 1, 14, 2, 17]),
    bytes([24, 2, 0, 15, 0]),
    bytes([18, 1, 0, 1, 2, 15]),
]


@cache
def communicator() -> Any:
    """A group of this process alone."""
    made = ringtree.init()
    made.set_timeout(0.05)
    return made


def values() -> list[Any]:
    """Arguments, made anew for each call: what it writes into is not the next one's."""
    x = np.arange(12, dtype=np.float32)
    fixed = np.ones(3)
    fixed.flags.writeable = False
    return [
        x, x[::2], x.reshape(3, 4).T, x.astype(np.int64), x.astype(">f4"), x.astype("c16"), np.ones(3, "U3"),
        np.array([{}], object), np.zeros(0, np.float16), np.ones((), np.int8), fixed, memoryview(bytearray(8)), "sum",
        "", None, 0, -1, 1, 2**31, 2**70, 1.5, float("nan"), True, [], [x, x], [1, 2], [[1], [2]], (), {"a": 1},
        b"bytes", "ring", "no_such",
        np.int64(0), np.bool_(True), object, "é", "float32", np.dtype("f8"), {3}, [None], max,
        np.ma.masked_array([1.0]), np.datetime64(1, "s"), np.zeros(2, [("a", "i4")]), x.view(), [-1], [2**40],
    ]  # fmt: skip


def make(data: bytes) -> None:
    """A call: its method, the number of positional arguments, and named ones, from the bytes."""
    if len(data) < 2:
        return
    comm, pool = communicator(), values()
    positional = data[1] % 4
    rest = data[2:]
    args = [pool[byte % len(pool)] for byte in rest[:positional]]
    named = rest[positional : positional + 8]
    given = {NAMES[named[k] % len(NAMES)]: pool[named[k + 1] % len(pool)] for k in range(0, len(named) - 1, 2)}
    try:
        result = getattr(comm, METHODS[data[0] % len(METHODS)])(*args, **given)
        if hasattr(result, "wait"):
            result.wait(0.05)
    except REFUSALS:
        pass
    except ringtree.Mismatch:  # of a message to oneself: the group can only be closed
        comm.close()
        communicator.cache_clear()
        return
    comm.set_timeout(0.05)
