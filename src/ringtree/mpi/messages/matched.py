"""Matched probes: a message that a probe has found is this Message's, and no other receive takes it.

The probe receives it, into memory of its own, and the Message's receive is a copy from there. It is one receive, of a
message of any length, beside which other threads may receive and probe as they like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ringtree.errors import TimedOut
from ringtree.mpi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL
from ringtree.mpi.errors import ERR_REQUEST, ERR_TRUNCATE, Exception, translating
from ringtree.mpi.messages.objects import object_of
from ringtree.mpi.messages.request import Connected, Request, landed
from ringtree.mpi.messages.status import NOTHING, Status
from ringtree.mpi.missing import MpiObject
from ringtree.mpi.types.buffers import octets

if TYPE_CHECKING:
    from typing_extensions import Self

ARRIVES_S, ARRIVES_BPS = 0.05, 200e6
"""Seconds, and bytes a second beside them, for which Iprobe first waits for the rest of a message that has begun to
arrive: where another thread takes the message, in vain."""


@translating
class Message(MpiObject):
    """A message that was probed; empty (MESSAGE_NULL) once it is received."""

    def __init__(self, message: Message | None = None) -> None:
        self._held: Any = None if message is None else message._held

    @classmethod
    def Probe(cls, comm: Connected, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Self:
        """Waits for a message and takes it."""
        return cls._made(None if source == PROC_NULL else comm._comm._recv_any_length(source, tag), status)

    @classmethod
    def Iprobe(
        cls, comm: Connected, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None
    ) -> Self | None:
        """Takes a message that is there; None where there is none."""
        if source == PROC_NULL:
            return cls._made(None, status)
        longer = 1
        while (found := comm._poll.find(comm._comm, source, tag)) is not None:
            limit_s = longer * (ARRIVES_S + found.nbytes / ARRIVES_BPS)
            try:
                return cls._made(comm._comm._recv_any_length(source, tag, limit_s), status)
            except TimedOut:  # another thread took it, or it is slow, and what has come of it was copied back
                longer *= 2
        return None

    @classmethod
    def _made(cls, received: Any, status: Status | None) -> Self:
        made = cls()
        if received is None:
            made._held = _NO_PROC
        else:
            data, found = received
            made._held = _Arrived(found), np.frombuffer(data, np.uint8)
        if status is not None:
            status.fill(made._held[0])
        return made

    probe, iprobe = Probe, Iprobe

    def Recv(self, buf: Any, status: Status | None = None) -> None:
        """Copies the message to `buf`, which may be longer. Exception of ERR_TRUNCATE: if it is shorter."""
        self.Irecv(buf).Wait(status)

    def Irecv(self, buf: Any) -> Request:
        """Recv as a Request, which is done at once."""
        arrived, room = self._let_go()
        if not room.size:
            return Request(arrived)
        into = octets(buf, writable=True)
        if into.size < room.size:
            raise Exception(ERR_TRUNCATE, f"message truncated: it has {room.size} bytes, the buffer {into.size}")
        into[: room.size] = room
        return landed(Request(arrived), into)  # type: ignore[no-any-return]

    def recv(self, status: Status | None = None) -> Any:
        """The message's object."""
        return self.irecv().wait(status)

    def irecv(self) -> Request:
        """recv as a Request, which is done at once."""
        arrived, room = self._let_go()
        return Request(arrived, lambda _: object_of(room.data, arrived))

    def _let_go(self) -> Any:
        if self._held is None:
            text = "MESSAGE_NULL holds no message; expected one that Mprobe or Improbe returned"
            raise Exception(ERR_REQUEST, text)
        held = self._held
        if self is not MESSAGE_NO_PROC:
            self._held = None
        return held

    def free(self) -> None:
        """Lets go of a message, which nobody receives then."""
        if self and self != MESSAGE_NO_PROC:
            self._held = None

    def __bool__(self) -> bool:
        return self._held is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self._held is other._held

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> str | tuple[Any, ...]:
        for name, one in (("MESSAGE_NULL", MESSAGE_NULL), ("MESSAGE_NO_PROC", MESSAGE_NO_PROC)):
            if self is one:
                return name
            if self == one:
                return Message, (one,)
        return _refuse()


class _Arrived:
    """The status of a message that was received when it was probed."""

    def __init__(self, found: Any) -> None:
        self.source, self.tag, self.nbytes = found.source, found.tag, found.nbytes

    def done(self) -> bool:
        """True."""
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Returns True at once, for every `timeout`."""
        return True


def _refuse() -> NoReturn:
    raise ValueError("a message cannot be pickled: it is this process's own")


_NO_PROC = (NOTHING, np.empty(0, np.uint8))
MESSAGE_NULL = Message()
MESSAGE_NO_PROC = Message()
MESSAGE_NO_PROC._held = _NO_PROC


@translating
class MatchedProbes(Connected):
    """Probes whose message is then this caller's alone: for programs whose threads receive from one communicator."""

    def Mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message:
        """Waits for a message and takes it."""
        return Message.Probe(self, source, tag, status)

    def Improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Status | None = None) -> Message | None:
        """Takes a message that is there; None where there is none."""
        return Message.Iprobe(self, source, tag, status)

    mprobe, improbe = Mprobe, Improbe
