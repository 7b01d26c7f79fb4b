"""Collectives between two groups: what one group gives, the other gets.

The root's group passes ROOT at the root and PROC_NULL elsewhere; the other group passes the root's rank. Broadcasts and
reductions cross in one message, between the root or rank 0 of either group, and go on within a group; all others are a
message for each pair of ranks that have something for one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from ringtree.mpi.collectives.uneven import Blocks
from ringtree.mpi.constants import PROC_NULL, ROOT
from ringtree.mpi.errors import translating
from ringtree.mpi.messages.request import Request, landed
from ringtree.mpi.op import SUM, Op
from ringtree.mpi.types.buffers import block, checked, octet_blocks, octets
from ringtree.mpi.types.memory import NumpyArray
from ringtree.mpi.types.packed import way_back
from ringtree.mpi.types.typed import TypedBlocks

if TYPE_CHECKING:
    from ringtree.mpi.comm import Intracomm


@translating
class CollectivesBetweenGroups:
    """The blocking collectives of an Intercomm; blocks are one for each rank of the other group."""

    _all: Intracomm
    _ours: Intracomm
    _begins: int

    @property
    def remote_size(self) -> int:
        """Number of ranks of the other group."""
        raise NotImplementedError

    def Barrier(self) -> None:
        """Returns when all ranks of both groups have entered."""
        self._all.Barrier()

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """Copies the root's `buf` into those of all ranks of the other group."""
        if self._gives(root):
            self._all.Send(octets(buf), self._begins)
        elif root != PROC_NULL:
            room = octets(buf, writable=True)
            if self._ours.rank == 0:
                self._all.Recv(room, self._begins + root)
            self._ours.Bcast(room)
            landed(None, room)

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Collects `sendbuf` of all ranks of the other group into the root's `recvbuf`, a block a rank."""
        if self._gives(root):
            self._swap([], list(octet_blocks(recvbuf, self.remote_size, True)))
        elif root != PROC_NULL:
            self._all.Send(octets(sendbuf), self._begins + root)

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Gather of blocks that differ in length."""
        if self._gives(root):
            self._into(Blocks(recvbuf, self.remote_size, True))
        else:
            self.Gather(sendbuf, None, root)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Sends block r of the root's `sendbuf` into rank r's `recvbuf`, of the other group."""
        if self._gives(root):
            self._swap(list(octet_blocks(sendbuf, self.remote_size)), [])
        elif root != PROC_NULL:
            self._all.Recv(recvbuf, self._begins + root)

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Scatter of blocks that differ in length."""
        if self._gives(root):
            self._swap(Blocks(sendbuf, self.remote_size).each(), [])
        else:
            self.Scatter(None, recvbuf, root)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Collects `sendbuf` of all ranks of the other group, a block a rank."""
        self._swap([octets(sendbuf)] * self.remote_size, list(octet_blocks(recvbuf, self.remote_size, True)))

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Allgather of blocks that differ in length."""
        self._into(Blocks(recvbuf, self.remote_size, True), [octets(sendbuf)] * self.remote_size)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Sends block r of `sendbuf` to rank r of the other group; block r of `recvbuf` came from there."""
        count = self.remote_size
        self._swap(list(octet_blocks(sendbuf, count)), list(octet_blocks(recvbuf, count, True)))

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Alltoall of blocks that differ in length."""
        self._into(Blocks(recvbuf, self.remote_size, True), Blocks(sendbuf, self.remote_size).each())

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """Alltoall of blocks that differ in length and type; displacements in bytes."""
        count = self.remote_size
        self._swap(TypedBlocks(sendbuf, count).blocks, TypedBlocks(recvbuf, count, True).blocks)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """Reduces `sendbuf` of all ranks of the other group by `op` into the root's `recvbuf`."""
        if self._gives(root):
            self._all.Recv(recvbuf, self._begins)
        elif root != PROC_NULL:
            x = block(sendbuf)
            total = x.copy() if self._ours.rank == 0 else None
            self._ours.Reduce(x, total, op)
            if total is not None:
                self._all.Send(total, self._begins + root)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """Reduces `sendbuf` of all ranks of the other group by `op`."""
        x, out = block(sendbuf), checked(block(recvbuf))
        total = x.copy() if self._ours.rank == 0 else None
        self._ours.Reduce(x, total, op)
        if total is not None:
            self._all.Sendrecv(total, self._begins, 0, octets(out, True), self._begins)
        self._ours.Bcast(octets(out, True))
        landed(None, out)

    def barrier(self) -> None:
        """Returns when all ranks of both groups have entered."""
        self._all.barrier()

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The root's object, on all ranks of the other group; None in the root's."""
        if self._gives(root):
            self._all.send(obj, self._begins)
        if root < 0:
            return None
        return self._ours.bcast(self._all.recv(None, self._begins + root) if self._ours.rank == 0 else None)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """The objects of all ranks of the other group, on the root; None elsewhere."""
        if self._gives(root):
            return [self._all.recv(None, self._begins + rank) for rank in range(self.remote_size)]
        if root != PROC_NULL:
            self._all.send(sendobj, self._begins + root)
        return None

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """The object that the root has for this rank; None in the root's group."""
        if self._gives(root):
            for rank, obj in enumerate(self._one_each(sendobj)):
                self._all.send(obj, self._begins + rank)
        return None if root < 0 else self._all.recv(None, self._begins + root)

    def allgather(self, sendobj: Any) -> list[Any]:
        """The objects of all ranks of the other group."""
        found: list[Any] = self._swapped(self._ours.gather(sendobj))
        return found

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """The objects that all ranks of the other group have for this one."""
        begun = [self._all.isend(obj, self._begins + rank) for rank, obj in enumerate(self._one_each(sendobj))]
        found = [self._all.recv(None, self._begins + rank) for rank in range(self.remote_size)]
        Request.Waitall(begun)
        return found

    def reduce(self, sendobj: Any, op: Any = SUM, root: int = 0) -> Any:
        """The reduction of the other group's objects in rank order, on the root; None elsewhere."""
        found = self.gather(sendobj, root)
        return None if found is None else reduce(op, found)

    def allreduce(self, sendobj: Any, op: Any = SUM) -> Any:
        """The reduction of the other group's objects in rank order."""
        return reduce(op, self.allgather(sendobj))

    def _gives(self, root: int) -> bool:
        """Whether this rank is the root. ValueError: if the root is neither here nor there."""
        if root not in (ROOT, PROC_NULL) and not 0 <= root < self.remote_size:
            raise ValueError(f"root {root}: expected ROOT, PROC_NULL or a rank of the other group")
        return root == ROOT

    def _one_each(self, objects: Sequence[Any] | None) -> Sequence[Any]:
        if objects is None or len(objects) != self.remote_size:
            raise ValueError(f"expected an object for each of the other group's {self.remote_size} ranks")
        return objects

    def _swapped(self, obj: Any) -> Any:
        """The object of the other group's rank 0, in exchange for that of this one's, on all ranks."""
        if self._ours.rank == 0:
            obj = self._all.sendrecv(obj, self._begins, 0, None, self._begins)
        return self._ours.bcast(obj)

    def _swap(self, sent: Sequence[NumpyArray], received: Sequence[NumpyArray]) -> None:
        """A block to each rank of the other group, or to none, and one from each, or from none."""
        comm = self._all._comm
        works = [comm.irecv(x, self._begins + rank, 0, at_most=True) for rank, x in enumerate(received)]
        works += [comm.isend(x, self._begins + rank) for rank, x in enumerate(sent)]
        for work in works:
            work.wait()
        if unpack := way_back(received):
            unpack(None)

    def _into(self, blocks: Blocks, sent: Sequence[NumpyArray] = ()) -> None:
        self._swap(sent, blocks.each())
