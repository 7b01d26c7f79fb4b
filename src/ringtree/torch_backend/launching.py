"""What every family of a process group's calls builds on: the group's state, and the one way in which a call is made.

All collectives of a group go through `launch`, in the order of the calls; so here is where they are named for the
profiler, written down by the flight recorder, and made synchronous or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ringtree.runtime.communicator import Communicator
from ringtree.torch_backend.completion import Completions
from ringtree.torch_backend.under_way import UnderWay
from ringtree.torch_backend.work import Done, Pending, Work, first_ended

Tensors = Sequence[torch.Tensor]


class Launching:
    """A group's state. `_rank` and `_size` are in this group."""

    _communicator: Communicator
    _rank: int
    _size: int
    _name: str

    def _open(self, communicator: Communicator) -> None:
        """The state of a group in which nothing was called yet."""
        self._communicator = communicator
        self._rank, self._size = communicator.rank, communicator.size
        self._sequence = 0  # of the last collective
        self._under_way = UnderWay()
        self._completions = Completions(first_ended)

    def _root(self, opts: Any) -> int:
        root: int = opts.rootRank
        if not 0 <= root < self._size:
            raise ValueError(f"invalid root rank: {root}; expected one of this group, 0..{self._size - 1}")
        return root

    def launch(
        self,
        name: str,
        opts: Any,
        inputs: Tensors,
        outputs: Tensors,
        call: Callable[[bool], Any],
        after: Callable[[], None] | None = None,
    ) -> Work:
        """Makes a collective. `name` is torch's for it, without the backend's; `opts` are torch's for it (asyncOp,
        timeout); `outputs` is what the work's future will hold. `call(async_op)` calls the communicator, whose Work it
        returns where `async_op`. `after` is run once when it has ended, before anybody may see the outputs: copies into
        tensors that the engine cannot write to.
        """
        self._sequence += 1
        with torch.no_grad():
            async_op = bool(opts.asyncOp)
            began = call(async_op)
            if async_op:
                where = partial(self._where, name, self._sequence)
                kept = (inputs, call)
                return Pending(began, outputs, where, self._under_way, self._completions, after, kept)
            if after is not None:
                after()
        return Done(outputs)

    def _where(self, name: str, sequence: int) -> str:
        """What errors call a collective of this group."""
        return f"{name}, sequence number {sequence} of group {self._name!r}, rank {self._rank} of {self._size}"

    def finish(self, timeout_s: float) -> bool:
        """Waits for every call that was begun, whether anybody kept its Work or not; false if that took longer."""
        return self._under_way.drain(timeout_s)
