"""Collectives of buffers whose blocks differ in length.

Blocks that lie one after another are sent from, and received to, where they are; others by way of one copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ringtree.mpi.constants import in_place
from ringtree.mpi.errors import ERR_TRUNCATE, Exception, translating
from ringtree.mpi.foreign import is_foreign, joined
from ringtree.mpi.messages.persistent import persistent
from ringtree.mpi.messages.request import Connected, Request, landed, started
from ringtree.mpi.op import SUM, Op, native
from ringtree.mpi.types.buffers import block, checked, derived_of, octets, placed
from ringtree.mpi.types.memory import NumpyArray
from ringtree.mpi.types.packed import gathered, way_back
from ringtree.mpi.types.typed import TypedBlocks
from ringtree.runtime.communicator.composite import CompositeCall
from ringtree.runtime.communicator.messages.work import Work


class Blocks:
    """Every rank's block of a buffer: `counts` and `places` in bytes of `line`."""

    def __init__(self, spec: Any, ranks: int, writable: bool = False) -> None:
        line, counts, places = placed(spec, ranks)
        self._strided: list[NumpyArray] = []  # each rank's block, where a derived type says where it lies
        if kind := derived_of(spec):
            checked(line, writable)
            self._strided = [
                gathered(line, place * kind.extent, kind.layout, n) for n, place in zip(counts, places, strict=True)
            ]
            self.counts = [part.size for part in self._strided]
            self.places = [0, *np.cumsum(self.counts).tolist()[:-1]]
            self.line, self._adjoin = np.concatenate(self._strided), True
            return
        item = line.dtype.itemsize
        self.line = checked(line.view(np.uint8) if line.size else np.empty(0, np.uint8), writable)
        self.counts, self.places = [n * item for n in counts], [n * item for n in places]
        ends = np.cumsum([self.places[0], *self.counts]).tolist()
        self._adjoin = all(
            n == 0 or place == end for n, place, end in zip(self.counts, self.places, ends, strict=False)
        )

    def of(self, rank: int) -> NumpyArray:
        """The elements of one rank's block, without a copy."""
        return self.line[self.places[rank] : self.places[rank] + self.counts[rank]]

    def each(self) -> list[NumpyArray]:
        """The ranks' blocks, in order."""
        return self._strided or [self.of(rank) for rank in range(len(self.counts))]

    def packed(self) -> NumpyArray:
        """All blocks, one after another."""
        if self._adjoin:
            return self.line[self.places[0] : self.places[0] + sum(self.counts)]
        return np.concatenate([self.of(rank) for rank in range(len(self.counts))])

    def unpack(self, room: NumpyArray) -> None:
        """Brings what was received to `packed` to its places."""
        for rank, part in enumerate(self._strided):
            part[:] = self.of(rank)
        if unpack := way_back(self._strided):
            unpack(None)
        if not self._adjoin:
            start = 0
            for rank, count in enumerate(self.counts):
                self.of(rank)[:] = room[start : start + count]
                start += count


@translating
class UnevenForms(Connected):
    """Collectives of uneven blocks, with buffers as [array, counts, displacements, type], in elements, as MPI has them.
    A blocking call whose counts not all ranks know exchanges them first; its nonblocking form is messages."""

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0, **how: Any) -> Any:
        """Collects every rank's `sendbuf` into the root's `recvbuf`, by its counts and displacements."""
        comm = self._comm
        into = Blocks(recvbuf, comm.size, writable=True) if comm.rank == root else None
        x = into.of(root) if into is not None and in_place(sendbuf) else octets(sendbuf)
        with CompositeCall(comm._fail, "Gatherv"):
            sent = comm.all_gather(np.array([x.size])).ravel().tolist()
            if into is None:
                return comm.gather_v(x, root, sent, **how)
            if into.counts != sent:
                raise Exception(ERR_TRUNCATE, f"Gatherv: the ranks send {sent} bytes; expected {into.counts}")
            room = into.packed()
            return _unpacking(comm.gather_v(x, root, sent, out=room, **how), into, room)

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0, **how: Any) -> Any:
        """Sends each rank its block of the root's `sendbuf`, by its counts and displacements."""
        comm = self._comm
        if comm.rank != root:
            room = octets(recvbuf, writable=True)
            return landed(comm.scatter_v(None, root=root, out=room, **how), room)
        blocks = Blocks(sendbuf, comm.size)
        out = None if in_place(recvbuf) else octets(recvbuf, writable=True)
        if out is not None:
            self._fits("Scatterv", "receives", out.size, blocks.counts)
        return landed(comm.scatter_v(blocks.packed(), blocks.counts, root, out=out, **how), out)

    def Allgatherv(self, sendbuf: Any, recvbuf: Any, **how: Any) -> Any:
        """Collects every rank's `sendbuf` into all `recvbuf`s, by their counts and displacements."""
        comm = self._comm
        into = Blocks(recvbuf, comm.size, writable=True)
        x = into.of(comm.rank) if in_place(sendbuf) else octets(sendbuf)
        self._fits("Allgatherv", "sends", x.size, into.counts)
        room = into.packed()
        return _unpacking(comm.all_gather_v(x, into.counts, out=room, **how), into, room)

    def Alltoallv(self, sendbuf: Any, recvbuf: Any, **how: Any) -> Any:
        """Sends block r of `sendbuf` to rank r, by counts and displacements; receives likewise."""
        comm = self._comm
        into = Blocks(recvbuf, comm.size, writable=True)
        blocks = into if in_place(sendbuf) else Blocks(sendbuf, comm.size)
        room = into.packed()
        made = comm.all_to_all_v(blocks.packed(), blocks.counts, out=room, out_counts=into.counts, **how)
        return _unpacking(made, into, room)

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Op = SUM, **how: Any) -> Any:
        """Reduces every rank's `sendbuf` by `op`; recvcounts[r] elements go to rank r's `recvbuf`. In place, all input
        lies in `recvbuf`, and the result at its start."""
        comm = self._comm
        out = checked(block(recvbuf))
        x = out if in_place(sendbuf) else block(sendbuf)
        with CompositeCall(comm._fail, "Reduce_scatter", several=recvcounts is None):
            if recvcounts is None:
                recvcounts = comm.all_gather(np.array([out.size])).ravel().tolist()
            elif len(recvcounts) != comm.size:
                raise ValueError(f"recvcounts has {len(recvcounts)} counts; expected one a rank, {comm.size}")
            mine = out[: recvcounts[comm.rank]]
            if is_foreign(x, op, comm.size):
                start = sum(recvcounts[: comm.rank])
                part = slice(start, start + recvcounts[comm.rank])
                return landed(joined(comm, x, op, mine, part, comm.size, how), out)
            return landed(comm.reduce_scatter_v(x, recvcounts, native(op), out=mine, **how), out)

    def Alltoallw(self, sendbuf: Any, recvbuf: Any, **how: Any) -> Any:
        """Alltoallv with a type for each block, [array, counts, displacements, types]; displacements in bytes."""
        comm = self._comm
        into = TypedBlocks(recvbuf, comm.size, writable=True)
        sent = into if in_place(sendbuf) else TypedBlocks(sendbuf, comm.size)
        room = np.empty(sum(into.sizes), np.uint8)
        x = np.concatenate(sent.blocks)
        return _unpacking(comm.all_to_all_v(x, sent.sizes, out=room, out_counts=into.sizes, **how), into, room)

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Gatherv as a request: a message from each rank to the root."""
        is_root = self._comm.rank == root
        received = Blocks(recvbuf, self._comm.size, writable=True).each() if is_root else []
        sent = {} if is_root and in_place(sendbuf) else {root: octets(sendbuf)}
        return self._begin_parts("gather", sent, dict(enumerate(received)), root)

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Scatterv as a request: a message from the root to each rank."""
        is_root = self._comm.rank == root
        sent = Blocks(sendbuf, self._comm.size).each() if is_root else []
        received = {} if is_root and in_place(recvbuf) else {root: octets(recvbuf, writable=True)}
        return self._begin_parts("scatter", dict(enumerate(sent)), received, root)

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Alltoallv as a request: a message from each rank to each."""
        into = Blocks(recvbuf, self._comm.size, writable=True).each()
        sent = into if in_place(sendbuf) else Blocks(sendbuf, self._comm.size).each()
        return self._begin_parts("all_to_all", dict(enumerate(sent)), dict(enumerate(into)))

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Alltoallw as a request: a message from each rank to each."""
        into = TypedBlocks(recvbuf, self._comm.size, writable=True).blocks
        sent = into if in_place(sendbuf) else TypedBlocks(sendbuf, self._comm.size).blocks
        return self._begin_parts("all_to_all", dict(enumerate(sent)), dict(enumerate(into)))

    def _fits(self, name: str, does: str, size: int, counts: list[int]) -> None:
        """Fails the group where this rank's block has not the size that the counts have for it: the ranks whose blocks
        do would wait."""
        rank = self._comm.rank
        if size != counts[rank]:
            with CompositeCall(self._comm._fail, name, several=self._comm.size > 1):
                raise Exception(ERR_TRUNCATE, f"{name}: rank {rank} {does} {size} bytes; expected {counts[rank]}")

    def _begin_parts(
        self, what: str, sent: dict[int, NumpyArray], received: dict[int, NumpyArray], root: int | None = None
    ) -> Request:
        """Begins messages of these blocks by rank: as each rank knows its own counts, none waits for another here."""
        comm = self._comm
        where = -1 if root is None else comm._root(root)
        return Request(comm._begin_parts(what, where, sent, received), way_back(received.values()))

    Iallgatherv = started(Allgatherv)
    Ireduce_scatter = started(Reduce_scatter)
    Gatherv_init = persistent(Igatherv)
    Scatterv_init = persistent(Iscatterv)
    Allgatherv_init = persistent(Iallgatherv)
    Alltoallv_init = persistent(Ialltoallv)
    Alltoallw_init = persistent(Ialltoallw)
    Reduce_scatter_init = persistent(Ireduce_scatter)


def _unpacking(made: Any, blocks: Blocks | TypedBlocks, room: NumpyArray) -> Any:
    """The end of a call that receives to `room`: at once, or when what was started is done."""
    if isinstance(made, Work):
        return Request(made, lambda _: blocks.unpack(room))
    return blocks.unpack(room)
