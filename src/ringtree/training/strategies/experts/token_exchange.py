"""The exchange of tokens between ranks that have some of the experts each: all_to_all of uneven parts, and back."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import Shard, distribute_tensor

from ringtree.training.core.experts import Experts, layers
from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.strategies.all_to_all import all_to_all
from ringtree.training.strategies.experts.expert_parallel import TOKENS, exchanges


class TokenExchange:
    """A layer's `dispatch`: rank r of the group has the r-th share of the experts, in order.

    An expert's gradient must be the mean over the group's ranks, as an averaged parameter's is, and not their sum. So
    gradients are divided by the group's size on their way to the experts, and multiplied by the size behind them.
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group

    def __call__(self, tokens: Tensor, counts: Tensor, experts: Experts) -> Tensor:
        """The experts' results for this rank's tokens, [tokens, width], which `counts` gives by expert."""
        n = self.group.size()
        came = torch.zeros_like(counts)
        even = [
            len(counts) // n
        ] * n  # given, so that each part is a message to its rank; otherwise small parts may be relayed by other ranks
        dist.all_to_all_single(came, counts, even, even, group=self.group)
        given, gotten = counts.view(n, -1), came.view(n, -1)  # [ranks, experts of each]
        sent, got = given.sum(1).tolist(), gotten.sum(1).tolist()
        x = all_to_all(_with_gradient_times(n, tokens), self.group, sent, got)
        # Rows arrive sorted by rank, then by expert; experts take rows sorted by expert.
        expert = torch.arange(gotten.shape[1]).repeat(n).repeat_interleave(came)
        order = expert.argsort(stable=True)
        made = experts(x[order], gotten.sum(0))[order.argsort()]
        return all_to_all(_with_gradient_times(1 / n, made), self.group, got, sent)


def _with_gradient_times(factor: float, x: Tensor) -> Tensor:
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * factor)
    return x


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Replaces each layer's experts by this rank's share, and its dispatch by a TokenExchange."""
    for layer in layers(model):
        layer.dispatch = TokenExchange(mesh.group("ep"))
        for name, stack in list(layer.experts.named_parameters()):
            mine = distribute_tensor(stack.detach(), mesh["ep"], [Shard(0)], src_data_rank=None)
            setattr(layer.experts, name, nn.Parameter(mine))
    return model


def counted(model: nn.Module, plan: TrainingPlan, rank: int) -> dict[str, int]:
    """Bytes that the layers of the rank-th rank of "ep" have sent so far, by the names of traffic that is known
    `at_most`."""
    mine = plan.shape.experts // plan.layout.ep
    kept = [layer.load.kept for layer in layers(model)]
    sent = sum(int(k.sum() - k[rank * mine : (rank + 1) * mine].sum()) for k in kept)
    return {TOKENS: exchanges(plan) * sent * plan.element_nbytes * plan.shape.width}
