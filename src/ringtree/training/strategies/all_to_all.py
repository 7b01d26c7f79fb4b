"""all_to_all with gradients, which return by the reverse exchange: tokens for experts, positions for heads.

torch's functional all_to_all (a private module) passes the sizes of all parts even where they are equal; this backend
sends uneven parts as messages.
"""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import Function

Sizes = list[int] | None
"""Rows for each rank, or from each; None: all are alike."""


def all_to_all(x: Tensor, group: dist.ProcessGroup, sent: Sizes = None, got: Sizes = None) -> Tensor:
    """Returns the received rows, [sum(got), ...], by rank. The first sent[0] rows of `x` [sum(sent), ...] go to rank 0,
    and so on; rank 0 sends got[0] rows."""
    return _AllToAll.apply(x, group, sent, got)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup, sent: Sizes, got: Sizes) -> Tensor:
        ctx.back = group, got, sent
        out = x.new_empty(len(x) if got is None else sum(got), *x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), got, sent, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return all_to_all(gradient, *ctx.back), None, None, None
