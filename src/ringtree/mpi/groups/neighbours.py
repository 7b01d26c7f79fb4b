"""Collectives between neighbours of a topology: one message an edge.

A block of `sendbuf` for each rank of `outedges`, a block of `recvbuf` for each of `inedges`, in their order. Of a grid,
what goes one way arrives as what came from the other side, also where both neighbours are one rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ringtree.mpi.collectives.uneven import Blocks
from ringtree.mpi.constants import CART, PROC_NULL
from ringtree.mpi.errors import translating
from ringtree.mpi.messages.persistent import persistent
from ringtree.mpi.messages.request import Request
from ringtree.mpi.types.buffers import octet_blocks, octets
from ringtree.mpi.types.memory import NumpyArray
from ringtree.mpi.types.packed import way_back
from ringtree.mpi.types.typed import TypedBlocks
from ringtree.runtime.communicator.messages.work import Together


@translating
class NeighbourCollectives:
    """The collectives that a communicator with a topology has beside an Intracomm's; all its ranks make the same calls
    in the same order."""

    topology: int
    _private: Any

    @property
    def inedges(self) -> list[int]:
        """Ranks that this rank receives from, PROC_NULL where there is none."""
        raise NotImplementedError

    @property
    def outedges(self) -> list[int]:
        """Ranks that this rank sends to, PROC_NULL where there is none."""
        raise NotImplementedError

    def Ineighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begins to send `sendbuf` to every neighbour and to receive a block of each."""
        return self._exchange([octets(sendbuf)] * len(self.outedges), _even(recvbuf, len(self.inedges), True))

    def Ineighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Ineighbor_allgather of blocks that differ in length."""
        return self._exchange([octets(sendbuf)] * len(self.outedges), _uneven(recvbuf, len(self.inedges), True))

    def Ineighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Begins to send a block to every neighbour and to receive one of each."""
        return self._exchange(_even(sendbuf, len(self.outedges)), _even(recvbuf, len(self.inedges), True))

    def Ineighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Ineighbor_alltoall of blocks that differ in length."""
        return self._exchange(_uneven(sendbuf, len(self.outedges)), _uneven(recvbuf, len(self.inedges), True))

    def Ineighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Ineighbor_alltoall of blocks that differ in length and type; displacements in bytes."""
        sent, received = TypedBlocks(sendbuf, len(self.outedges)), TypedBlocks(recvbuf, len(self.inedges), True)
        return self._exchange(sent.blocks, received.blocks)

    def Neighbor_allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Sends `sendbuf` to every neighbour and receives a block of each."""
        self.Ineighbor_allgather(sendbuf, recvbuf).Wait()

    def Neighbor_allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Neighbor_allgather of blocks that differ in length."""
        self.Ineighbor_allgatherv(sendbuf, recvbuf).Wait()

    def Neighbor_alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """Sends a block to every neighbour and receives one of each."""
        self.Ineighbor_alltoall(sendbuf, recvbuf).Wait()

    def Neighbor_alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Neighbor_alltoall of blocks that differ in length."""
        self.Ineighbor_alltoallv(sendbuf, recvbuf).Wait()

    def Neighbor_alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """Neighbor_alltoall of blocks that differ in length and type; displacements in bytes."""
        self.Ineighbor_alltoallw(sendbuf, recvbuf).Wait()

    Neighbor_allgather_init = persistent(Ineighbor_allgather)
    Neighbor_allgatherv_init = persistent(Ineighbor_allgatherv)
    Neighbor_alltoall_init = persistent(Ineighbor_alltoall)
    Neighbor_alltoallv_init = persistent(Ineighbor_alltoallv)
    Neighbor_alltoallw_init = persistent(Ineighbor_alltoallw)

    def neighbor_allgather(self, sendobj: Any) -> list[Any]:
        """The objects of all neighbours; None for PROC_NULL."""
        return self.neighbor_alltoall([sendobj] * len(self.outedges))

    def neighbor_alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """The objects that the neighbours have for this rank; None for PROC_NULL."""
        ends = list(self._sends())
        if len(sendobj) != len(ends):
            raise ValueError(f"{len(sendobj)} objects; expected one a neighbour, {len(ends)}")
        begun = [self._private.isend(obj, rank, tag) for obj, (rank, tag) in zip(sendobj, ends, strict=True)]
        found = [self._private.recv(None, rank, tag) for rank, tag in self._receives()]
        Request.Waitall(begun)
        return found

    def _sends(self) -> Iterable[tuple[int, int]]:
        """Rank and tag of each edge out; the tag is the edge's number at the other end of a grid's."""
        return ((rank, k ^ 1 if self.topology == CART else 0) for k, rank in enumerate(self.outedges))

    def _receives(self) -> Iterable[tuple[int, int]]:
        return ((rank, k if self.topology == CART else 0) for k, rank in enumerate(self.inedges))

    def _exchange(self, sent: Sequence[NumpyArray], received: Sequence[NumpyArray]) -> Request:
        comm = self._private._comm
        works = [
            comm.irecv(block, rank, tag, at_most=True)
            for block, (rank, tag) in zip(received, self._receives(), strict=True)
            if rank != PROC_NULL
        ]
        works += [
            comm.isend(block, rank, tag)
            for block, (rank, tag) in zip(sent, self._sends(), strict=True)
            if rank != PROC_NULL
        ]
        return Request(Together(works, None), way_back(received))


def _even(spec: Any, count: int, writable: bool = False) -> Sequence[NumpyArray]:
    return list(octet_blocks(spec, count, writable)) if count else []


def _uneven(spec: Any, count: int, writable: bool = False) -> Sequence[NumpyArray]:
    if not count:
        return []
    return Blocks(spec, count, writable).each()
