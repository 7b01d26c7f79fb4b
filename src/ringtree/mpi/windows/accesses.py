"""Accesses to other ranks' memory: what a window's origin sends, and what it gets back."""

from __future__ import annotations

import itertools
import operator
import pickle
import threading
from typing import Any

import numpy as np

from ringtree.mpi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from ringtree.mpi.errors import ERR_OP, ERR_OTHER, ERR_RMA_RANGE, Exception, translating
from ringtree.mpi.messages.request import Request
from ringtree.mpi.messages.status import NOTHING
from ringtree.mpi.op import NO_OP, ON_ARRAYS, REPLACE, SUM, Op, check
from ringtree.mpi.types.buffers import block, checked, derived_of, octets
from ringtree.mpi.types.datatype import Datatype
from ringtree.mpi.types.layout import Layout
from ringtree.mpi.types.memory import NumpyArray
from ringtree.mpi.types.packed import way_back
from ringtree.mpi.windows.window_target import REPLY, Access, encoded, send
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.messages.work import Message

MOST_SENDS = 64
"""Requests on their way before one is waited for."""
ANSWER_BYTES = 512
"""Bytes of an answer beside what it returns."""


@translating
class Accesses:
    """The accesses of a window's origin. Each is one message to the target's thread, and one back where it returns
    something; the data is copied into them. They are done, here and there, after the next Flush, Unlock, Fence or
    Complete; a request of the forms with an R is done earlier. Accesses of one rank to one target happen in order.

    `origin` and `result`: buffers. `target`: None for the window's begin, a displacement, or [displacement, count,
    type]. Exception of ERR_RMA_RANGE: where the target's window does not have the memory."""

    _comm: Communicator
    _extents: list[tuple[int, int] | None]  # of each rank's window: bytes, and bytes of a displacement; None: dynamic

    def _begin(self) -> None:
        self._tags = itertools.count()
        self._posting = threading.RLock()  # guards the rest
        self._sends: list[Any] = []
        self._awaited: dict[int, list[_Answer]] = {}
        self._silent: set[int] = set()  # targets of accesses that have no answer

    def Put(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Writes `origin` to the target's memory."""
        self._change(origin, None, target_rank, target, REPLACE)

    def Get(self, origin: Any, target_rank: int, target: Any = None) -> None:
        """Reads the target's memory into `origin`."""
        self._read(origin, target_rank, target)

    def Accumulate(self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM) -> None:
        """Reduces `origin` by `op` into the target's memory."""
        self._change(origin, None, target_rank, target, op)

    def Get_accumulate(self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM) -> None:
        """Accumulate, with what lay there before in `result`. NO_OP only reads, whatever `origin` is."""
        self._change(origin, result, target_rank, target, op)

    def Rput(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """Put as a request, which is done at once: `origin` may be changed."""
        return self._change(origin, None, target_rank, target, REPLACE)

    def Rget(self, origin: Any, target_rank: int, target: Any = None) -> Request:
        """Get as a request, which is done when `origin` is filled."""
        return self._read(origin, target_rank, target)

    def Raccumulate(self, origin: Any, target_rank: int, target: Any = None, op: Op = SUM) -> Request:
        """Accumulate as a request, which is done at once: `origin` may be changed."""
        return self._change(origin, None, target_rank, target, op)

    def Rget_accumulate(self, origin: Any, result: Any, target_rank: int, target: Any = None, op: Op = SUM) -> Request:
        """Get_accumulate as a request, which is done when `result` is filled."""
        return self._change(origin, result, target_rank, target, op)

    def Fetch_and_op(self, origin: Any, result: Any, target_rank: int, target_disp: int = 0, op: Op = SUM) -> None:
        """Get_accumulate of one element; `origin` may be None for NO_OP."""
        if target_rank != PROC_NULL:
            _single(*[result] if op == NO_OP and origin is None else [origin, result])
            self._change(origin, result, target_rank, target_disp, op)

    def Compare_and_swap(self, origin: Any, compare: Any, result: Any, target_rank: int, target_disp: int = 0) -> None:
        """Writes `origin`, one element, where the target's memory equals `compare` bit by bit; what lay there before is
        in `result`."""
        if target_rank == PROC_NULL:
            return
        _single(origin, compare, result)
        new, out = block(origin), checked(block(result))
        layout = Layout.plain(new.nbytes)
        access = Access(
            "swap", 0, target_disp, layout, 1, new.dtype, "REPLACE", new.tobytes(), octets(compare).tobytes()
        )
        self._ask(target_rank, access, out)

    def _change(self, origin: Any, result: Any, rank: int, target: Any, op: Op) -> Request:
        if not isinstance(op, Op) or op.name not in ON_ARRAYS:
            raise Exception(ERR_OP, f"{op} does not accumulate; expected one of MPI's operations, such as SUM")
        if rank == PROC_NULL:
            return Request(NOTHING)
        if op == NO_OP and result is not None:
            return self._read(result, rank, target)  # as atomic as the others; MPI ignores the origin
        x = block(origin)
        place, layout, count, dtype = _aim(x, origin, target)
        check(op.name, dtype)
        access = Access("accumulate", 0, place, layout, count, dtype, op.name, x.tobytes())
        if result is not None:
            out = checked(block(result))
            if (out.nbytes, out.dtype) != (x.nbytes, x.dtype):
                raise ValueError(
                    f"the result has {out.nbytes} bytes of {out.dtype}; expected {x.nbytes} of {x.dtype}, as the origin"
                )
            return self._ask(rank, access, out)
        self._check(rank, access)
        with self._posting:
            self._send(rank, access)
            self._silent.add(rank)
        return Request(NOTHING)

    def _read(self, origin: Any, rank: int, target: Any) -> Request:
        if rank == PROC_NULL:
            return Request(NOTHING)
        out = checked(block(origin))
        place, layout, count, dtype = _aim(out, origin, target)
        return self._ask(rank, Access("get", 0, place, layout, count, dtype), out)

    def _ask(self, rank: int, access: Access, out: NumpyArray | None) -> Request:
        """Sends a request that is answered; the answer goes to `out`. The next Flush waits for it, but for a lock's,
        which may come only when another rank has done its part."""
        if out is not None:
            self._check(rank, access)
        room = np.empty((0 if out is None else out.nbytes) + ANSWER_BYTES, np.uint8)
        with self._posting:
            tag = REPLY + next(self._tags) % (1 << 20)
            answer = _Answer(rank, self._comm.irecv(room, rank, tag, at_most=True), room, out)
            self._send(rank, access._replace(reply=tag))
            if access.name != "lock":
                self._awaited[rank] = [*self._under_way(rank), answer]
        return Request(answer)

    def _send(self, rank: int, access: Access) -> None:
        """Sends a request, with `_posting` held: a long one is two messages, which no other may come between. The
        targets' threads take what is sent without any other of this rank's calls."""
        if len(self._sends) > MOST_SENDS:
            self._end_sends()
        self._sends += send(self._comm, rank, encoded(access))

    def _end_sends(self) -> None:
        for work in self._sends:
            work.wait()
        self._sends.clear()

    def _under_way(self, rank: int) -> list[_Answer]:
        return [answer for answer in self._awaited.get(rank, ()) if not answer.over]

    def _known(self, rank: int) -> int:
        if not 0 <= operator.index(rank) < self._comm.size:
            raise ValueError(f"no rank {rank} in the window's group: expected 0..{self._comm.size - 1}")
        return rank

    def _check(self, rank: int, access: Access) -> None:
        self._known(rank)
        extent = self._extents[rank]
        if extent is None or access.layout is None or not access.number:
            return
        low, high = access.layout.span(access.number)
        begin = access.place * extent[1]
        if begin + low < 0 or begin + high > extent[0]:
            text = f"bytes {begin + low} to {begin + high} of rank {rank}'s window, which has {extent[0]}"
            raise Exception(ERR_RMA_RANGE, text)

    def _settle(self, *ranks: int) -> None:
        """Waits until all accesses to these ranks are done there, and their results are here: also those that another
        thread waits for. Then raises the first error of an access."""
        with self._posting:
            for rank in ranks:
                if rank in self._silent:
                    self._silent.discard(rank)
                    self._ask(rank, Access("flush"), None)
            answers = [answer for rank in ranks for answer in self._under_way(rank)]
        failures = []
        for answer in answers:
            try:
                answer.wait()
            except Exception as failure:  # of the access; the group's own errors end this at once
                failures.append(failure)
        with self._posting:
            for rank in self._awaited.keys() & set(ranks):
                self._awaited[rank] = self._under_way(rank)
        if failures:
            raise failures[0]

    def _settle_all(self) -> None:
        with self._posting:
            ranks = sorted(self._silent | self._awaited.keys())
        self._settle(*ranks)
        with self._posting:
            self._end_sends()


class _Answer:
    """The answer to an access, which goes to `out` when it has come to `room`. Several threads may wait for it."""

    source, tag, nbytes = ANY_SOURCE, ANY_TAG, 0  # of a request's status, which is empty

    def __init__(self, rank: int, message: Message, room: NumpyArray, out: NumpyArray | None) -> None:
        self._rank, self._message, self._room, self._out = rank, message, room, out
        self._waits = threading.Lock()
        self._error: str | None = None
        self.over = False

    def done(self) -> bool:
        """Whether it has come, without waiting."""
        if self.over or not self._waits.acquire(blocking=False):
            return self.over
        try:
            return self._message.done()
        finally:
            self._waits.release()

    def wait(self) -> bool:
        """Waits for it; True. Exception of ERR_OTHER: if the access failed."""
        with self._waits:
            if not self.over:
                self._message.wait()
                try:
                    self._arrive()
                finally:
                    self.over = True
        if self._error:
            raise Exception(ERR_OTHER, f"an access to the window of rank {self._rank} failed there: {self._error}")
        return True

    def _arrive(self) -> None:
        self._error, found = pickle.loads(self._room[: self._message.nbytes].data)
        out = self._out
        if out is not None and out.size and not self._error:
            out[...] = np.frombuffer(found, out.dtype)
            if unpack := way_back([out]):
                unpack(None)


def _aim(x: NumpyArray, origin: Any, target: Any) -> tuple[int, Layout, int, Any]:
    """The displacement, the layout of an element there, the number of them, and their dtype."""
    kind: Datatype | None = derived_of(origin)
    place, count = 0, None
    if isinstance(target, list | tuple):
        place, count, given = (*target, None, None)[:3] if target else (0, None, None)
        if given is not None:
            kind = Datatype.fromcode(given) if isinstance(given, str) else given
    elif target is not None:
        place = target
    dtype = x.dtype if kind is None else kind.dtype
    layout = Layout.plain(dtype.itemsize) if kind is None else kind.layout
    if count is None:
        count = x.nbytes // layout.size if layout.size else 0
    if operator.index(count) * layout.size != x.nbytes:
        raise ValueError(
            f"{count} elements of {layout.size} bytes at the target, {x.nbytes} bytes here; expected as many"
        )
    return operator.index(place), layout, operator.index(count), dtype


def _single(*buffers: Any) -> None:
    lines = [block(buffer) for buffer in buffers]
    if any(line.size != 1 or line.dtype != lines[0].dtype for line in lines):
        shown = ", ".join(f"{line.size} of {line.dtype}" for line in lines)
        raise ValueError(f"{shown}: expected one element each, of one type")
