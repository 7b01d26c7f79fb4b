"""Running a table of calls on real ranks: all rows in one world, and each row's result compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ringtree
from ringtree import mpi as MPI

Row = tuple[str, Callable[[MPI.Comm], Any], Callable[[int, int], Any]]
"""A name; what a rank does, with its result; what that must be, of (rank, size)."""


class Started:
    """A Comm whose collectives of buffers are the nonblocking forms, each waited for at once."""

    def __init__(self, comm: MPI.Comm) -> None:
        self._comm = comm

    def __getattr__(self, name: str) -> Any:
        begin = getattr(self._comm, f"I{name.lower()}", None) if name[0].isupper() else None
        if begin is None:
            return getattr(self._comm, name)
        return lambda *args, **kwargs: begin(*args, **kwargs).wait()


def ints(*values: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array(values, np.int32)


def check(rows: list[Row], ranks: int) -> None:
    """Every row on that many ranks, in order."""

    def work(comm: ringtree.Communicator) -> list[Any]:
        results = []
        for _, call, _ in rows:
            results.append(plain(call(MPI.Intracomm(comm))))
            comm.barrier()  # or one row's wildcards would take the next row's messages
        return results

    for rank, results in enumerate(ringtree.spawn(work, ranks, timeout_s=60)):
        for (name, _, expected), result in zip(rows, results, strict=True):
            assert result == plain(expected(rank, ranks)), f"{name} on rank {rank} of {ranks}"


def plain(value: Any) -> Any:
    """Arrays as lists, so that results travel and compare."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | memoryview) or hasattr(value, "typecode") else value
