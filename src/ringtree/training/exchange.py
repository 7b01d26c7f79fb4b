"""The exchange of tokens between ranks that have some of the experts each: all_to_all of uneven parts, and back."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ringtree.training.experts import Experts


class Moved(torch.autograd.Function):
    """Rows of x, the first sent[0] of which go to rank 0, and so on; got[0] come from there. Their gradients come back,
    times `scale`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sent: list[int], got: list[int], scale: float, group: dist.ProcessGroup) -> Tensor:
        ctx.back = got, sent, scale, group
        return _moved(x, sent, got, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        sent, got, scale, group = ctx.back
        return _moved(gradient, sent, got, group) * scale, None, None, None, None


def _moved(x: Tensor, sent: list[int], got: list[int], group: dist.ProcessGroup) -> Tensor:
    out = x.new_empty(sum(got), *x.shape[1:])
    dist.all_to_all_single(out, x.contiguous(), got, sent, group=group)
    return out


class Exchange:
    """A layer's `dispatch`: rank r of the group has the r-th share of the experts, in order.

    An expert's gradient is then the mean over the group, not the sum, of what its ranks' losses say: as a parameter's
    that is averaged over the group. So gradients are divided by its size on their way to the experts, and multiplied by
    it on their way on.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group

    def __call__(self, tokens: Tensor, counts: Tensor, experts: Experts) -> Tensor:
        n = self.group.size()
        came = torch.zeros_like(counts)
        dist.all_to_all_single(came, counts, group=self.group)
        given, gotten = counts.view(n, -1), came.view(n, -1)  # [ranks, experts of each]
        sent, got = given.sum(1).tolist(), gotten.sum(1).tolist()
        x = Moved.apply(tokens, sent, got, float(n), self.group)
        # It lies by rank, then by expert: experts take it by expert.
        expert = torch.arange(gotten.shape[1]).repeat(n).repeat_interleave(came)
        order = expert.argsort(stable=True)
        made = experts(x[order], gotten.sum(0))[order.argsort()]
        back: Tensor = Moved.apply(made, got, sent, 1 / n, self.group)
        return back
