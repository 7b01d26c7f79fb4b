"""Messages between two ranks: buffers (upper case) and pickled objects (lower case).

A message of an object is its pickle, so that its length is the room to make.
"""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np

from ringtree.mpi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from ringtree.mpi.errors import KINDS, direct, reraise, translating
from ringtree.mpi.messages.objects import object_of
from ringtree.mpi.messages.persistent import Prequest
from ringtree.mpi.messages.request import Connected, Request, landed
from ringtree.mpi.messages.status import NOTHING, Status
from ringtree.mpi.types.buffers import octets
from ringtree.mpi.types.packed import Packed
from ringtree.runtime.communicator.messages.messages import sending

ROOM = 1 << 15
"""Bytes that irecv makes room for where no size is given, as mpi4py does: its message must not be longer."""


@translating
class MessageMethods(Connected):
    """Messages between two ranks. A buffer is a contiguous array of any type that MPI has. A message shorter than the
    buffer is received; a longer one is an Exception of ERR_TRUNCATE. PROC_NULL is no rank."""

    @direct
    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Sends `buf` to rank `dest`; returns when `buf` may be overwritten."""
        if dest != PROC_NULL:
            try:
                self._comm.send(octets(buf), dest, tag)
            except KINDS as error:
                reraise(error)

    Rsend = Send

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Sends `buf`; returns when a receive has taken the message."""
        self.Issend(buf, dest, tag).Wait()

    def Issend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Begins to send `buf`; the request is done when a receive has taken the message."""
        return Request(NOTHING if dest == PROC_NULL else self._comm.issend(octets(buf), dest, tag))

    def Ssend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """A persistent request whose every Start is an Issend of `buf`."""
        return Prequest.of(self, lambda comm: comm.Issend(buf, dest, tag))

    def Bsend(self, buf: Any, dest: int, tag: int = 0) -> None:
        """Sends a copy, which is kept until it is sent: no buffer needs to be attached."""
        self.Ibsend(buf, dest, tag)

    @direct
    def Recv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> None:
        """Receives a message into `buf`, which may be longer than the message."""
        if status is not None or source == PROC_NULL:
            self.Irecv(buf, source, tag).Wait(status)
            return
        try:
            room = octets(buf)
            self._comm.recv(room, source, tag, at_most=True)  # raises for arrays that cannot be written
            if type(room) is Packed:
                room.unpack()
        except KINDS as error:
            reraise(error)

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Begins to send `buf`, which must not change before the request is done."""
        return Request(NOTHING if dest == PROC_NULL else self._comm.isend(octets(buf), dest, tag))

    Irsend = Isend

    def Ibsend(self, buf: Any, dest: int, tag: int = 0) -> Request:
        """Begins to send a copy of `buf`, which may change at once."""
        return Request(NOTHING if dest == PROC_NULL else self._comm.isend(octets(buf).copy(), dest, tag))

    def Irecv(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Begins to receive a message into `buf`, which may be longer than the message."""
        if source == PROC_NULL:
            return Request(NOTHING)
        room = octets(buf, True)
        return landed(Request(self._comm.irecv(room, source, tag, at_most=True)), room)  # type: ignore[no-any-return]

    def Send_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """A persistent request whose every Start is an Isend of `buf`."""
        return Prequest.of(self, lambda comm: comm.Isend(buf, dest, tag))

    Rsend_init = Send_init

    def Bsend_init(self, buf: Any, dest: int, tag: int = 0) -> Prequest:
        """A persistent request whose every Start is an Ibsend of `buf`."""
        return Prequest.of(self, lambda comm: comm.Ibsend(buf, dest, tag))

    def Recv_init(self, buf: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        """A persistent request whose every Start is an Irecv into `buf`."""
        return Prequest.of(self, lambda comm: comm.Irecv(buf, source, tag))

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Sends and receives at the same time, so that ranks in a circle do not deadlock."""
        self.Isendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag).Wait(status)

    def Isendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        """Begins to send and to receive; the request is done when both are, and its status is the receive's."""
        data = None
        if dest != PROC_NULL:  # a receive that is begun takes a message, also where its send is refused
            sending(data := octets(sendbuf), dest, sendtag, self._comm.size)
        incoming = self.Irecv(recvbuf, source, recvtag)
        outgoing = NOTHING if data is None else self._comm.isend(data, dest, sendtag)
        return Request(_Both(incoming._work, outgoing), incoming._finish)

    def Isendrecv_replace(
        self, buf: Any, dest: int, sendtag: int = 0, source: int = ANY_SOURCE, recvtag: int = ANY_TAG
    ) -> Request:
        """Begins to send a copy of `buf` and to receive into `buf`."""
        return self.Isendrecv(octets(buf).copy(), dest, sendtag, buf, source, recvtag)

    def Sendrecv_replace(
        self,
        buf: Any,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> None:
        """Sends a copy of `buf` and receives into `buf`."""
        self.Sendrecv(octets(buf).copy(), dest, sendtag, buf, source, recvtag, status)

    def Probe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Waits until a message can be received and fills `status`; the message stays."""
        found = NOTHING if source == PROC_NULL else self._comm.probe(source, tag)
        if status is not None:
            status.fill(found)
        return True

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> bool:
        """Whether a message can be received now; if so, fills `status`. The message stays."""
        found = NOTHING if source == PROC_NULL else self._poll.find(self._comm, source, tag)
        if found is not None and status is not None:
            status.fill(found)
        return found is not None

    probe, iprobe = Probe, Iprobe

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends an object, pickled, to rank `dest`."""
        self.Send(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), dest, tag)

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Begins to send an object, pickled; returns at once."""
        self.isend(obj, dest, tag)

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Begins to send an object, pickled; returns its request."""
        return self.Isend(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), dest, tag)

    ibsend = isend

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        """Sends an object, pickled; returns when a receive has taken it."""
        self.Ssend(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), dest, tag)

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Request:
        """Begins to send an object, pickled; the request is done when a receive has taken it."""
        return self.Issend(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), dest, tag)

    def recv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Any:
        """Receives an object; None from a message without bytes. `buf` is not needed, and a UserWarning: the message
        carries its length. ValueError: if the message is no object."""
        if buf is not None:
            warnings.warn("recv needs no buf: the message carries its length", UserWarning, stacklevel=3)
        if source == PROC_NULL:
            return self.Recv(None, source, tag, status)
        data, found = self._comm._recv_any_length(source, tag)
        if status is not None:
            status.fill(found)
        return object_of(data, found)

    def irecv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Begins to receive an object, which the request's `wait` returns. `buf`: memory for its pickle, or its
        bytes."""
        if source == PROC_NULL:
            return Request(NOTHING)
        room = octets(buf if hasattr(buf, "__len__") else np.empty(buf or ROOM, np.uint8), True)
        message = self._comm.irecv(room, source, tag, at_most=True)
        return Request(message, lambda done: object_of(room[: done.nbytes].data, done))

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Any:
        """Sends an object and returns a received one, both at the same time."""
        outgoing = self.isend(sendobj, dest, sendtag)
        obj = self.recv(recvbuf, source, recvtag, status)
        outgoing.wait()
        return obj


class _Both:
    """A receive and a send begun together: done when both are, and of the receive's source, tag and length."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    def done(self) -> bool:
        """Whether both are done, without waiting."""
        return bool(self._incoming.done() and self._outgoing.done())

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for both."""
        return bool(self._incoming.wait(timeout) and self._outgoing.wait(timeout))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._incoming, name)
