"""Collectives of buffers with equal blocks.

`**how` is ringtree's own, beyond MPI: `algorithm="ring"`, `deterministic="rank_order"`. What only moves data goes as
bytes, so that every type can; what reduces goes as its type.
"""

from __future__ import annotations

from typing import Any

from ringtree.mpi.constants import in_place
from ringtree.mpi.errors import ERR_COUNT, ERR_TRUNCATE, Exception, translating
from ringtree.mpi.foreign import ALL, is_foreign, joined
from ringtree.mpi.messages.persistent import persistent
from ringtree.mpi.messages.request import Connected, landed, started
from ringtree.mpi.op import SUM, Op, native
from ringtree.mpi.types.buffers import block, checked, octet_blocks, octets


@translating
class CollectiveMethods(Connected):
    """The collectives on buffers; all ranks of the Comm make the same calls in the same order. Buffers are contiguous
    arrays, or MPI's lists [array, count, type] of them; a derived type that has holes costs a copy each way. IN_PLACE,
    or None, as MPI has it. Errors are `Exception`s where MPI has a class for them."""

    def Barrier(self, **how: Any) -> Any:
        """Returns when all ranks have entered."""
        return self._comm.barrier(**how)

    def Bcast(self, buf: Any, root: int = 0, **how: Any) -> Any:
        """Copies the root's `buf` into every rank's."""
        room = octets(buf)
        return landed(self._comm.broadcast(room, root, **how), None if self._comm.rank == root else room)

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0, **how: Any) -> Any:
        """Collects every rank's `sendbuf` into the root's `recvbuf`, a block a rank."""
        comm = self._comm
        if comm.rank != root:
            return comm.gather(octets(sendbuf), root, **how)
        out = octet_blocks(recvbuf, comm.size, writable=True)
        x = out[root] if in_place(sendbuf) else _fitting("Gather", octets(sendbuf), out)
        return landed(comm.gather(x, root, out=out, **how), out)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0, **how: Any) -> Any:
        """Sends block r of the root's `sendbuf` into rank r's `recvbuf`."""
        comm = self._comm
        if comm.rank != root:
            room = octets(recvbuf, writable=True)
            return landed(comm.scatter(None, root, room, **how), room)
        out, blocks = None if in_place(recvbuf) else octets(recvbuf, writable=True), octet_blocks(sendbuf, comm.size)
        return landed(comm.scatter(blocks, root, out if out is None else _fitting("Scatter", out, blocks), **how), out)

    def Allgather(self, sendbuf: Any, recvbuf: Any, **how: Any) -> Any:
        """Collects every rank's `sendbuf` into all `recvbuf`s, a block a rank."""
        comm = self._comm
        out = octet_blocks(recvbuf, comm.size, writable=True)
        x = out[comm.rank] if in_place(sendbuf) else _fitting("Allgather", octets(sendbuf), out)
        return landed(comm.all_gather(x, out=out, **how), out)

    def Alltoall(self, sendbuf: Any, recvbuf: Any, **how: Any) -> Any:
        """Sends block r of `sendbuf` to rank r; block r of `recvbuf` came from rank r."""
        comm = self._comm
        out = octet_blocks(recvbuf, comm.size, writable=True)
        x = out if in_place(sendbuf) else octet_blocks(sendbuf, comm.size)
        return landed(comm.all_to_all(x, out=out, **how), out)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0, **how: Any) -> Any:
        """Reduces every rank's `sendbuf` by `op` into the root's `recvbuf`."""
        comm = self._comm
        out = checked(block(recvbuf)) if comm.rank == root else None
        x = block(recvbuf if in_place(sendbuf) else sendbuf)
        if is_foreign(x, op, comm.size):
            return landed(joined(comm, x, op, out, ALL, comm.size, how), out)
        return landed(comm.reduce(x, native(op), root, out=out, **how), out)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, **how: Any) -> Any:
        """Reduces every rank's `sendbuf` by `op` into all `recvbuf`s."""
        out = checked(block(recvbuf))
        x = out if in_place(sendbuf) else block(sendbuf)
        if is_foreign(x, op, self._comm.size):
            return landed(joined(self._comm, x, op, out, ALL, self._comm.size, how), out)
        return landed(self._comm.all_reduce(x, native(op), out=out, **how), out)

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, **how: Any) -> Any:
        """Reduces every rank's `sendbuf` by `op`; block r goes to rank r's `recvbuf`. In place, all input lies in
        `recvbuf`, and the result in its first block."""
        comm = self._comm
        x = block(recvbuf if in_place(sendbuf) else sendbuf, comm.size).reshape(comm.size, -1)
        out = x[0] if in_place(sendbuf) else block(recvbuf)
        if is_foreign(x, op, comm.size):
            n = x.shape[1]
            part = slice(comm.rank * n, comm.rank * n + n)
            return landed(joined(comm, x.reshape(-1), op, checked(out), part, comm.size, how), out)
        return landed(comm.reduce_scatter(x, native(op), out=checked(out), **how), out)

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, **how: Any) -> Any:
        """Reduces the `sendbuf`s of ranks 0 to this rank, inclusive, into `recvbuf`."""
        out = checked(block(recvbuf))
        x = out if in_place(sendbuf) else block(sendbuf)
        if is_foreign(x, op, 1):
            return landed(joined(self._comm, x, op, out, ALL, self._comm.rank + 1, how), out)
        return landed(self._comm.scan(x, native(op), out=out, **how), out)

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, **how: Any) -> Any:
        """Reduces the `sendbuf`s of the ranks before this one into `recvbuf`; rank 0's is left alone."""
        out = checked(block(recvbuf))
        x = out if in_place(sendbuf) else block(sendbuf)
        if is_foreign(x, op, 1):
            return landed(joined(self._comm, x, op, out, ALL, self._comm.rank, how), out)
        return landed(self._comm.exscan(x, native(op), out=out, **how), out)

    Ibarrier = started(Barrier)
    Ibcast = started(Bcast)
    Igather = started(Gather)
    Iscatter = started(Scatter)
    Iallgather = started(Allgather)
    Ialltoall = started(Alltoall)
    Ireduce = started(Reduce)
    Iallreduce = started(Allreduce)
    Ireduce_scatter_block = started(Reduce_scatter_block)
    Iscan = started(Scan)
    Iexscan = started(Exscan)
    Barrier_init = persistent(Ibarrier)
    Bcast_init = persistent(Ibcast)
    Gather_init = persistent(Igather)
    Scatter_init = persistent(Iscatter)
    Allgather_init = persistent(Iallgather)
    Alltoall_init = persistent(Ialltoall)
    Reduce_init = persistent(Ireduce)
    Allreduce_init = persistent(Iallreduce)
    Reduce_scatter_block_init = persistent(Ireduce_scatter_block)
    Scan_init = persistent(Iscan)
    Exscan_init = persistent(Iexscan)


def _fitting(call: str, one: Any, blocks: Any) -> Any:
    """`one`, a rank's own buffer. Exception: unless it is as long as a block of the call's other buffer."""
    have, block_bytes = one.shape[0], blocks.shape[1]
    if have != block_bytes:
        kind = ERR_TRUNCATE if have > block_bytes else ERR_COUNT
        text = f"a rank's own buffer has {have} bytes; expected {block_bytes}, as a block of the other buffer has"
        raise Exception(kind, f"{call}: {text}")
    return one
