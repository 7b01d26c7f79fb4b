"""Collectives of Python objects, pickled: what mpi4py's lower-case methods do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ringtree.mpi.errors import translating
from ringtree.mpi.messages.request import Connected
from ringtree.mpi.op import SUM

Reduction = Callable[[Any, Any], Any]


@translating
class ObjectMethods(Connected):
    """Collectives of Python objects, slow beside the upper-case methods; only among trusted ranks: a pickle may run
    anything."""

    def barrier(self) -> None:
        """Returns when all ranks have entered."""
        self._comm.barrier()

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The root's object, on every rank."""
        return self._comm.broadcast_object(obj, root)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Every rank's object, by rank, on the root; None elsewhere."""
        return self._comm.gather_object(sendobj, root)

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """The object that the root's sequence has for this rank."""
        return self._comm.scatter_object(sendobj, root)

    def allgather(self, sendobj: Any) -> list[Any]:
        """Every rank's object, by rank, on every rank."""
        return self._comm.all_gather_object(sendobj)

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """The objects that all ranks have sent to this one, by rank."""
        return self._comm.all_to_all_object(sendobj)

    def reduce(self, sendobj: Any, op: Reduction = SUM, root: int = 0) -> Any:
        """The reduction of all ranks' objects in rank order, on the root; None elsewhere."""
        return self._comm.reduce_object(sendobj, op, root)

    def allreduce(self, sendobj: Any, op: Reduction = SUM) -> Any:
        """The reduction of all ranks' objects, on every rank."""
        return self._comm.all_reduce_object(sendobj, op)

    def scan(self, sendobj: Any, op: Reduction = SUM) -> Any:
        """The reduction of the objects of ranks 0 to this one."""
        return reduce(op, self.allgather(sendobj)[: self._comm.rank + 1])

    def exscan(self, sendobj: Any, op: Reduction = SUM) -> Any:
        """The reduction of the objects of the ranks before this one; None on rank 0."""
        before = self.allgather(sendobj)[: self._comm.rank]
        return reduce(op, before) if before else None
