"""all_to_all in both of its forms.

A rank knows what it gives and what it gets, and nothing of what others exchange: where
parts may be of different sizes, they go as messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.distributed_c10d import AllToAllOptions

from ringtree.runtime.communicator.calls.codes import CODE
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend.calls.forms import taking
from ringtree.torch_backend.calls.launching import Launching
from ringtree.torch_backend.tensors import Tensors, filled, on_host, plain, together
from ringtree.torch_backend.works.work import GroupWork

_ALL_TO_ALL = CODE["all_to_all"]


class AllToAll(Launching):
    """The backend's all_to_all, of lists of tensors and of one tensor with even or uneven parts."""

    @taking(AllToAllOptions, output_tensors=1, input_tensors=1)
    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any) -> GroupWork | None:
        """Sends inputs[r] to rank r, and fills outputs[r] from there. ValueError: unless both lists have one tensor a
        rank."""
        if len(outputs) != self._size or len(inputs) != self._size:
            got = f"got {len(inputs)} inputs and {len(outputs)} outputs"
            raise ValueError(f"{got}; expected {self._size} of each, one for each rank")
        xs, targets = [plain(x) for x in inputs], [filled(out) for out in outputs]
        outs, after = [out for out, _ in targets], together([after for _, after in targets])
        return self.launch("all_to_all", opts, inputs, outputs, lambda c, a: _exchange_parts(c, xs, outs, a), after)

    @taking(AllToAllOptions, output=0, input=0, output_split_sizes=0, input_split_sizes=0)
    def all_to_all_single(
        self, output: torch.Tensor, input: torch.Tensor, out_splits: Sequence[int], in_splits: Sequence[int], opts: Any
    ) -> GroupWork | None:
        """Sends the first in_splits[0] rows of `input` to rank 0, and so on; the first out_splits[0] rows of `output`
        came from rank 0. Without splits all are alike."""
        x, (out, after) = plain(input), filled(output)
        given, gotten = self._elements(input, in_splits, "input"), self._elements(output, out_splits, "output")
        if not in_splits and not out_splits:
            prepared = (lambda c, a: c.all_to_all(x, out=out, async_op=a)), after
            return self.launch_again(
                "all_to_all_single", opts, [input], [output], _ALL_TO_ALL, x, out, "", -1, lambda *_: prepared, after
            )

        def call(c: Communicator, async_op: bool) -> Any:
            xs, outs = x.reshape(-1).split(given), out.view(-1).split(gotten)
            return _exchange_parts(c, xs, outs, async_op)

        return self.launch("all_to_all_single", opts, [input], [output], call, after)

    alltoall_base = all_to_all_single

    def _elements(self, x: torch.Tensor, splits: Sequence[int], what: str) -> list[int]:
        """The engine's elements for each rank, when `splits` are the rows."""
        n = self._size
        rows = x.shape[0] if x.dim() else 0
        if not splits:
            if not x.dim() or rows % n:
                raise ValueError(f"{what} has {rows} rows; expected a number that {n} ranks divide evenly")
            splits = [rows // n] * n
        if len(splits) != n or min(splits) < 0 or sum(splits) != rows:
            raise ValueError(f"{what} has {rows} rows, split as {list(splits)}; expected {n} numbers that add up to it")
        width = x.numel() // rows if rows else 0
        return [split * width for split in splits]


def _exchange_parts(c: Communicator, xs: Tensors, outs: Tensors, async_op: bool) -> Any:
    """The parts as messages; those of CUDA devices through host memory, at once."""
    if not any(x.is_cuda for x in (*xs, *outs)):
        return c.exchange_parts(xs, outs, async_op=async_op)
    landed = [torch.empty(out.shape, dtype=out.dtype) for out in outs]
    c.exchange_parts([on_host(x) for x in xs], landed)
    for out, there in zip(outs, landed, strict=True):
        out.copy_(there)
    return None
