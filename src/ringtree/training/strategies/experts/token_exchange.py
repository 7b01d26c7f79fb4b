"""The exchange of tokens between ranks that have some of the experts each: all_to_all of uneven parts, and back."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import Shard, distribute_tensor

from ringtree.training.core.experts import Experts, layers
from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import ELEMENT_NBYTES
from ringtree.training.strategies.all_to_all import all_to_all
from ringtree.training.strategies.experts.expert_parallel import TOKENS


class TokenExchange:
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
        even = [len(counts) // n] * n  # said: as messages, each to whom it is for; else small ones may go round others
        dist.all_to_all_single(came, counts, even, even, group=self.group)
        given, gotten = counts.view(n, -1), came.view(n, -1)  # [ranks, experts of each]
        sent, got = given.sum(1).tolist(), gotten.sum(1).tolist()
        x = all_to_all(_with_gradient_times(n, tokens), self.group, sent, got)
        # It lies by rank, then by expert: experts take it by expert.
        expert = torch.arange(gotten.shape[1]).repeat(n).repeat_interleave(came)
        order = expert.argsort(stable=True)
        made = experts(x[order], gotten.sum(0))[order.argsort()]
        return all_to_all(_with_gradient_times(1 / n, made), self.group, got, sent)


def _with_gradient_times(factor: float, x: Tensor) -> Tensor:
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * factor)
    return x


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    for layer in layers(model):
        layer.dispatch = TokenExchange(mesh.group("ep"))
        for name, stack in list(layer.experts.named_parameters()):
            mine = distribute_tensor(stack.detach(), mesh["ep"], [Shard(0)], src_data_rank=None)
            setattr(layer.experts, name, nn.Parameter(mine))
    return model


def counted(model: nn.Module, plan: TrainingPlan, rank: int) -> dict[str, int]:
    """What the layers of a rank, the rank-th of "ep", have sent so far of what `traffic` can only bound: bytes, by its
    names."""
    mine = plan.shape.experts // plan.layout.ep
    kept = [layer.load.kept for layer in layers(model)]
    sent = sum(int(k.sum() - k[rank * mine : (rank + 1) * mine].sum()) for k in kept)
    return {TOKENS: 4 * sent * ELEMENT_NBYTES * plan.shape.width}
