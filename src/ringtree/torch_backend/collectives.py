"""The collectives, under torch's names old and new, over a communicator's."""

from __future__ import annotations

from typing import Any

import torch

from ringtree.torch_backend.launching import Launching, Tensors
from ringtree.torch_backend.reduce_ops import operation
from ringtree.torch_backend.work import Work


class Collectives(Launching):
    """Tensors come in lists, of which a CPU backend's calls take one each; roots are ranks of this group."""

    def allreduce(self, tensors: Tensors, opts: Any) -> Work:
        [x] = tensors
        op = operation(opts.reduceOp)
        c = self._communicator

        def call(async_op: bool) -> Any:
            return _began(c.all_reduce(x, op, out=x, async_op=async_op))

        return self.launch("all_reduce", opts, tensors, tensors, call)

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        [x] = tensors
        c, root = self._communicator, opts.rootRank
        return self.launch(
            "broadcast", opts, tensors, tensors, lambda async_op: _began(c.broadcast(x, root, async_op=async_op))
        )

    def barrier(self, opts: Any) -> Work:
        c = self._communicator
        return self.launch("barrier", opts, (), (), lambda async_op: c.barrier(async_op=async_op))


def _began(result: Any) -> Any:
    """ringtree's Work of an asynchronous call; of another, whose result is the tensor given, None."""
    return None if isinstance(result, torch.Tensor) else result
