"""What every family of a process group's calls builds on: the group's state, and the one way in which a call is made.

All collectives of a group go through `launch`, in the order of the calls; so here is where they are named for the
profiler, written down by the flight recorder, and made synchronous or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ringtree.runtime.communicator import Communicator
from ringtree.runtime.work import Work as Began
from ringtree.torch_backend.work import Done, Pending, Work

Tensors = Sequence[torch.Tensor]


class Launching:
    """A group's state. `_rank` and `_size` are in this group."""

    _communicator: Communicator
    _rank: int
    _size: int

    def launch(
        self,
        name: str,
        opts: Any,
        inputs: Tensors,
        outputs: Tensors,
        call: Callable[[bool], Began | None],
        after: Callable[[], None] | None = None,
    ) -> Work:
        """Makes a collective. `name` is torch's for it, without the backend's; `opts` are torch's for it (asyncOp,
        timeout); `outputs` is what the work's future will hold. `call(async_op)` begins it, and returns ringtree's Work
        where `async_op`. `after` is run once when it has ended, before anybody may see the outputs: copies into
        tensors that the engine cannot write to.
        """
        with torch.no_grad():
            began = call(bool(opts.asyncOp))
            if began is not None:
                return Pending(began, outputs, after)
            if after is not None:
                after()
        return Done(outputs)
