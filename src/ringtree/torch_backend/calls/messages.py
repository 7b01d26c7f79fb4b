"""Messages between two ranks: outside the order of the collectives, matched by source and tag. Those of CUDA devices
go through host memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.messages.work import Message, wait_any
from ringtree.runtime.engines.tags import ANY
from ringtree.torch_backend.calls import modes
from ringtree.torch_backend.calls.launching import Launching
from ringtree.torch_backend.compiling import opaque
from ringtree.torch_backend.flight.recorder import FlightEntry, FlightRecorder
from ringtree.torch_backend.tensors import After, Tensors, WithoutData, filled_from_host, on_host, one, plain
from ringtree.torch_backend.works.completion import Completions
from ringtree.torch_backend.works.work import GroupWork, Pending, done

Posted = tuple[Message, After | None]
"""A message under way, and the step after it."""


class Received(Pending):
    """A receive under way."""

    began: Message
    owed = False

    def source_rank(self) -> int:
        """The sender's rank in this group."""
        self.wait()
        return self.began.source

    _source_rank = source_rank

    def _finish(self, error: Exception | None) -> None:
        if error is None and self._entry.peer == ANY:
            self._entry.peer_is(self.began.source)
        super()._finish(error)


class GroupMessages(Launching):
    """The backend's messages: a call takes one tensor, in a list. Sends and receives begin at once, also during other
    calls of this rank, and go on while it computes. Two messages of one rank with one tag keep their order."""

    def _open(self, communicator: Communicator, recorder: FlightRecorder) -> None:
        super()._open(communicator, recorder)
        self._mailed = Completions(_first_ended)

    @opaque
    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> GroupWork:
        """Sends the tensor to rank `dst` of the group. The work has ended when the tensor may be changed again."""
        if modes.entered and modes.depth() and modes.skips("send", tensors):
            return done(list(tensors), self._callbacks)
        entry = self._recorder.begin_message("send", tensors, dst, tag)
        return self._posted(
            Pending, entry, tensors, lambda: (self._communicator.isend(on_host(plain(one(tensors))), dst, tag), None)
        )

    @opaque
    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> GroupWork:
        """Receives a message from rank `src` of the group into the tensor."""
        return self._receive("recv", tensors, src, tag)

    @opaque
    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> GroupWork:
        """Receives a message from any rank of the group into the tensor."""
        return self._receive("recvAnySource", tensors, ANY, tag)

    def _receive(self, name: str, tensors: Tensors, src: int, tag: int) -> GroupWork:
        if modes.entered and modes.depth() and modes.skips(name, tensors):
            return done(list(tensors), self._callbacks)

        def post() -> Posted:
            memory, after = filled_from_host(one(tensors))
            return self._communicator.irecv(memory, src, tag), after

        return self._posted(Received, self._recorder.begin_message(name, tensors, src, tag), tensors, post)

    def _posted(
        self, kind: type[Pending], entry: FlightEntry, tensors: Tensors, post: Callable[[], Posted]
    ) -> GroupWork:
        """`post` also prepares the tensors: one that is refused takes the entry back."""
        try:
            began, after = post()
            return kind(began, tensors, entry, self._under_way, self._mailed, None, after)
        except WithoutData as error:
            entry.fail(error)
            return done(list(tensors), self._callbacks)
        except Exception as error:  # noqa: BLE001  # raised again, with what is known here
            raise entry.fail(error) from None


def _first_ended(works: list[Pending], limit_s: float) -> Pending | None:
    """Returns a work that has ended, or one under way for longer than the group's timeout: its future then has an
    error, though the message is still under way."""
    with suppress(Exception):  # time ran out, or one of them has failed
        work = works[wait_any([work.began for work in works], limit_s)]
        if work.is_completed():  # its tensor filled
            return work
    return next((work for work in works if work.is_completed() or work.overdue()), None)
