"""Messages between two ranks: outside the order of the collectives, matched by source and tag."""

from __future__ import annotations

from functools import partial
from typing import Any

from ringtree.runtime.messages import ANY
from ringtree.runtime.work import Message, wait_any
from ringtree.torch_backend.completion import Completions
from ringtree.torch_backend.launching import Launching, Tensors
from ringtree.torch_backend.tensors import filled, one, sent
from ringtree.torch_backend.work import Pending


class Posted(Pending):
    """A message under way."""

    began: Message

    def source_rank(self) -> int:
        """Who sent it, in this group."""
        self.wait()
        return self.began.source

    _source_rank = source_rank


class Messages(Launching):
    """A call takes one tensor, in a list. Sends and receives alike begin at once, whatever the calls are that this rank
    is in, and go on while it computes. Two messages of one rank with one tag keep their order."""

    def _open(self, communicator: Any) -> None:
        super()._open(communicator)
        self._mailed = Completions(_first_ended)

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> Posted:
        """The work has ended when the tensor may be changed again."""
        message = self._communicator.isend(sent(one(tensors)), dst, tag)
        return self._posted(message, tensors, f"send to rank {self._named(dst)}, tag {tag}")

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> Posted:
        return self._receive(tensors, src, tag, f"recv from rank {self._named(src)}, tag {tag}")

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Posted:
        return self._receive(tensors, ANY, tag, f"recv from any rank, tag {tag}")

    def _receive(self, tensors: Tensors, src: int, tag: int, name: str) -> Posted:
        memory, after = filled(one(tensors))
        return self._posted(self._communicator.irecv(memory, src, tag), tensors, name, after)

    def _posted(self, message: Message, tensors: Tensors, name: str, after: Any = None) -> Posted:
        where = partial("{}, group {!r}, rank {} of {}".format, name, self._name, self._rank, self._size)
        return Posted(message, tensors, where, self._under_way, self._mailed, after)

    def _named(self, rank: int) -> int:
        """A rank of this group by its number in the world, as errors of the engine name it."""
        return self._communicator.ranks[rank]


def _first_ended(works: list[Posted], limit_s: float) -> Posted | None:
    try:
        return works[wait_any([work.began for work in works], limit_s)]
    except Exception:  # noqa: BLE001  # time ran out, or one of them has failed
        return next((work for work in works if work.is_completed()), None)
