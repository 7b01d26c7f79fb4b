"""What every family of a process group's calls builds on: the group's state, and the one way in which a call is made.

All collectives of a group go through `launch`, in the order of the calls; so here is where they are named for the
profiler, written down by the flight recorder, and made synchronous or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ringtree.runtime.communicator import Communicator
from ringtree.torch_backend.work import Done, Pending, Work

Tensors = Sequence[torch.Tensor]


class Launching:
    """A group's state. `_rank` and `_size` are in this group."""

    _communicator: Communicator
    _rank: int
    _size: int

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
        with torch.no_grad():
            async_op = bool(opts.asyncOp)
            began = call(async_op)
            if async_op:
                return Pending(began, outputs, after)
            if after is not None:
                after()
        return Done(outputs)
