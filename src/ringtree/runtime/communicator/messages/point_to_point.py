"""Messages between two ranks, as methods of the communicator."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from ctypes import memmove
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.runtime import arrays
from ringtree.runtime.communicator.arguments import listed
from ringtree.runtime.communicator.composite import CompositeCall
from ringtree.runtime.communicator.member import Member
from ringtree.runtime.communicator.messages.messages import (
    Batch,
    MessageStatus,
    peer,
    receiving,
    sending,
    source,
    tag_of,
    tag_wanted,
)
from ringtree.runtime.communicator.messages.work import Message, Together
from ringtree.runtime.engines.tags import ACKNOWLEDGEMENT, ANY, COPY, PARTS

if TYPE_CHECKING:
    from ringtree.runtime.arrays import Array
    from ringtree.runtime.engines.protocols import MessageOperation

_ndarray = np.ndarray
_BYTES = 5  # uint8's code: pickles


class PointToPoint(Member):
    """Messages between two ranks with one tag keep their order. A receive takes the earliest message that fits, and a
    message goes to the earliest receive that fits, also with wildcards: MPI's rules. `ringtree.ANY` is any source,
    any tag. Several threads of a rank may be here at once.

    A rank's non-blocking messages make progress by themselves while the rank does something else.
    """

    def send(self, x: Any, dst: int, tag: int = 0) -> None:
        """Sends the array `x` to rank `dst`; returns when `x` may be changed again, which may be before `dst` has
        received it. ValueError: if `dst` is no rank of the group, or `tag` not in 0..2^31-1."""
        if type(x) is _ndarray and self._endpoint.send(x, dst, tag):
            return
        operation, _array = sending(x, dst, tag, self.size)
        self._exchange([operation])

    def recv(self, x: Any, src: int = ANY, tag: int = 0, *, at_most: bool = False) -> Any:
        """Fills `x` with the earliest message of that tag from `src` and returns it. Mismatch: if the message is of
        another size or type. TypeError, ValueError: if `x` is no array, read-only or not contiguous.

        `at_most`: the message may be shorter; returns the part of `x` that it fills, flat. `probe` before, or `irecv`
        after, reports the message's source and tag.
        """
        if type(x) is _ndarray:
            if not at_most:
                if self._endpoint.recv(x, src, tag):
                    return x
            elif (nbytes := self._endpoint.recv_at_most(x, src, tag)) >= 0:
                return x if x.ndim == 1 and nbytes == x.nbytes else x.reshape(-1)[: nbytes // x.itemsize]
        operation, array = receiving(x, src, tag, self.size, at_most)
        [(_, _, nbytes)] = self._exchange([operation])
        return _front(array, nbytes) if at_most else x

    def isend(self, x: Any, dst: int, tag: int = 0) -> Message:
        """Begins to send `x`, which must stay as it is until the message is done. Errors as in send."""
        operation, array = sending(x, dst, tag, self.size)
        return self._mail.post(operation, array, None)

    def issend(self, x: Any, dst: int, tag: int = 0) -> Together:
        """isend, done only when a receive of rank `dst` has taken the message. Errors as in send; ValueError for a tag
        of 2^30 or more."""
        operation, array = sending(x, dst, tag, self.size)
        _, whose, which, address, _, dtype, _ = operation
        if which >= 1 << 30:
            raise ValueError(f"tag {tag} of a synchronous send: expected 0..{(1 << 30) - 1}")
        with CompositeCall(self._fail, "issend"):  # a receive without its send would take the next one's answer
            answer = self._mail.post((False, whose, ACKNOWLEDGEMENT + which, address, 0, dtype, False), array, None)
            return Together([answer, self._mail.post((*operation[:6], True), array, None)], None)

    def irecv(self, x: Any, src: int = ANY, tag: int = 0, *, at_most: bool = False) -> Message:
        """Begins to receive into `x`, as recv does. The finished message has its source, tag and bytes."""
        operation, array = receiving(x, src, tag, self.size, at_most)
        return self._mail.post(operation, array, (lambda nbytes: _front(array, nbytes)) if at_most else x)

    def probe(self, src: int = ANY, tag: int = ANY) -> MessageStatus:
        """Waits until a message that fits has begun to arrive; returns its source, tag and bytes without receiving
        it."""
        found = self._endpoint.probe(source(src, self.size), tag_wanted(tag), -1.0)
        assert found is not None  # without a limit it waits, or raises
        return MessageStatus(*found)

    def iprobe(self, src: int = ANY, tag: int = ANY) -> MessageStatus | None:
        """The status as `probe` returns it, without waiting; None if there is no such message yet."""
        found = self._endpoint.probe(source(src, self.size), tag_wanted(tag), 0.0)
        return None if found is None else MessageStatus(*found)

    def _glance(self, src: int, tag: int) -> MessageStatus | None:
        """iprobe; None also where all who could send it have left the group in order, which iprobe raises for."""
        found = self._endpoint.probe(source(src, self.size), tag_wanted(tag), 0.0, True)
        return None if found is None else MessageStatus(*found)

    def sendrecv(self, x: Any, dst: int, y: Any, src: int, tag: int = 0, recv_tag: int | None = None) -> Any:
        """Sends `x` and receives into `y` at once, so that a circle of ranks does not block; returns `y`."""
        send, _kept = sending(x, dst, tag, self.size)
        receive, _filled = receiving(y, src, tag if recv_tag is None else recv_tag, self.size)
        self._exchange([send, receive])
        return y

    def copy(self, x: Any, src: int, dst: int, out: Any = None) -> Any:
        """Rank src's `x` into rank dst's `out`, which it returns there: without one, a new array like its own `x`.
        The other ranks need not call it, and return None at once where they do."""
        src, dst = peer(src, self.size), peer(dst, self.size)
        operations: list[MessageOperation] = []
        if self.rank == src:
            given = arrays.readable(x, moved=True)
            operations.append((True, dst, COPY, given.address, given.nbytes, given.code, False))
        if self.rank == dst:
            if out is None and x is None:
                raise ValueError(f"copy needs out on rank {dst}, or an x of the message's size and type")
            like = arrays.readable(x, moved=True) if out is None else None
            filled = arrays.writable(out, moved=True) if like is None else arrays.target(None, like, like.shape)
            operations.append((False, src, COPY, filled.address, filled.nbytes, filled.code, False))
        if operations:
            self._exchange(operations)
        if self.rank != dst:
            return None
        return filled.owner if out is None else out

    def exchange_parts(self, xs: Sequence[Any], outs: Sequence[Any], *, async_op: bool = False) -> Any:
        """Sends xs[r] to rank r, and fills outs[r] with the message from there; returns `outs`. All ranks call it, in
        one order. Parts may be of any sizes: unlike in all_to_all_v a rank knows its own only, and no call exchanges
        sizes first. ValueError: unless both lists have `size` arrays. Mismatch, which names both ranks and sizes: if a
        part is not as its receiver expects."""
        xs, outs = listed(xs, "xs", "arrays"), outs if isinstance(outs, Sequence) else listed(outs, "outs", "arrays")
        if len(xs) != self.size or len(outs) != self.size:
            raise ValueError(f"got {len(xs)} parts to send and {len(outs)} to fill; expected {self.size} of each")
        if async_op:
            return self._begin_parts("exchange_parts", -1, dict(enumerate(xs)), dict(enumerate(outs)), outs)
        operations = self._parts(dict(enumerate(xs)), dict(enumerate(outs)))
        if operations:
            with CompositeCall(self._fail, "exchange_parts"):
                self._calls.synchronize_for("exchange_parts", False)
                self._exchange([operation for operation, _ in operations])
        return outs

    def _begin_parts(
        self, what: str, root: int, xs: Mapping[int, Any], outs: Mapping[int, Any], result: Any = None
    ) -> Together:
        """Begins to send xs[r] to rank r, and to fill outs[r] from there, for the ranks that each names; a rank's own
        part moves where both do. All ranks call it, and a part that one sends is one that the other fills. Mismatch,
        by the Work: if `what`, the call that this is, or its `root` differ between ranks, or a part's size."""
        operations = self._parts(xs, outs)
        if self.size == 1:
            return Together([], result)
        with CompositeCall(self._fail, what):
            barrier = self._calls.synchronize_for(what, True, root)
            assert barrier is not None  # as it was started
            return Together([barrier, *(self._mail.post(*operation, None) for operation in operations)], result)

    def _parts(self, xs: Mapping[int, Any], outs: Mapping[int, Any]) -> list[tuple[MessageOperation, Array]]:
        """The operations of parts by rank, each with the array that must outlive it; this rank's own part is copied."""
        filled = {rank: arrays.writable(out, moved=True) for rank, out in outs.items()}
        given = _apart({rank: arrays.readable(x, moved=True) for rank, x in xs.items()}, [*filled.values()])
        mine, own = given.pop(self.rank, None), filled.pop(self.rank, None)
        if mine is not None and own is not None:
            if (mine.count, mine.code) != (own.count, own.code):
                wanted = f"{mine.count // mine.unit} {mine.label}, as this rank sends itself"
                raise ValueError(f"outs[{self.rank}] has {own.count // own.unit} {own.label}; expected {wanted}")
            memmove(own.address, mine.address, own.nbytes)
        operations: list[tuple[MessageOperation, Array]] = []
        for rank in range(self.size):
            if x := given.get(rank):
                operations.append(((True, rank, PARTS, x.address, x.nbytes, x.code, False), x))
            if out := filled.get(rank):
                operations.append(((False, rank, PARTS, out.address, out.nbytes, out.code, False), out))
        return operations

    def send_object(self, obj: Any, dst: int, tag: int = 0) -> None:
        """Sends any object that pickle can write. ValueError: as in send."""
        data = np.frombuffer(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), np.uint8)
        address = data.__array_interface__["data"][0]
        self._exchange([(True, peer(dst, self.size), tag_of(tag), address, data.nbytes, _BYTES, False)])

    def recv_object(self, src: int = ANY, tag: int = 0) -> Any:
        """The earliest object of that tag from `src`. Unpickling runs code of the sender's choice: only for groups
        whose ranks trust each other (all are one user's processes). ValueError: if the message is no object."""
        data, status = self._recv_any_length(src, tag)
        if not (data.startswith(pickle.PROTO) and data.endswith(pickle.STOP)):
            found = f"{len(data)} bytes from rank {status.source} with tag {status.tag} are no object"
            raise ValueError(f"{found}: expected an object that send_object sent; recv takes an array")
        return pickle.loads(data)

    def _recv_any_length(self, src: int, tag: int, timeout_s: float | None = None) -> tuple[bytes, MessageStatus]:
        """The earliest message of bytes that fits, and its status: one receive, so that no other thread's comes between
        a probe for the length and it. TimedOut: after `timeout_s`, default the group's; the group is as it was."""
        limit_s = self._parameters.timeout_s if timeout_s is None else timeout_s
        data, sender, its = self._endpoint.receive(source(src, self.size), tag_wanted(tag), _BYTES, limit_s)
        return data, MessageStatus(sender, its, len(data))

    def batch(self) -> Batch:
        """Sends and receives that start together: see Batch."""
        return Batch(self.size, self._exchange)

    def _exchange(self, operations: list[MessageOperation]) -> list[tuple[int, int, int]]:
        statuses: list[tuple[int, int, int]] = self._endpoint.exchange(operations, self._parameters.timeout_s)
        return statuses


def _apart(xs: dict[int, Array], outs: list[Array]) -> dict[int, Array]:
    """The inputs, copied where they overlap an output."""
    low = min((out.address for out in outs), default=0)
    high = max((out.address + out.nbytes for out in outs), default=0)
    for rank, x in xs.items():
        if x.address < high and low < x.address + x.nbytes and any(x.overlaps(out) for out in outs):
            xs[rank] = x.copy()
    return xs


def _front(array: Array, nbytes: int) -> Any:
    """The first elements of an array, flat, as a view of it."""
    return array.owner.reshape(-1)[: nbytes // (array.dtype.itemsize * array.unit)]
