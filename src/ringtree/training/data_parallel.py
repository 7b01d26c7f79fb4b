"""Data parallelism (torch's DistributedDataParallel): each rank has the whole model and a share of the rows.

- At the start, rank 0's parameters are broadcast.
- In backward, gradients are averaged over the ranks by all_reduce, a bucket at a time as they become ready, while the
  rest of backward goes on; of several micro-batches, once, with the last. Every rank then makes the same optimizer
  step.

Bytes a rank receives in a step, over n ranks with P bytes of parameters: 2(n-1)/n P.

DDP knows no DTensors: with tensor parallelism torch's `replicate` (FSDP2 that divides nothing) does the same to each
rank's parts of the parameters, in one all_reduce.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ringtree.training.layout import LayoutError
from ringtree.training.plan import Plan
from ringtree.training.sizes import held_nbytes
from ringtree.training.strategy import Strategy
from ringtree.training.traffic import Traffic

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import nn

    from ringtree.training.mesh import Mesh
    from ringtree.training.step import ForwardBackward


def used(plan: Plan) -> bool:
    layout = plan.layout
    return layout.zero <= 1 and layout.staleness is None and layout.dp * layout.cp * layout.ep > 1


def check(plan: Plan) -> None:
    pieces = plan.layout.pieces * plan.layout.micro_batches
    if plan.settings.batch % pieces:
        raise LayoutError(
            f"a batch of {plan.settings.batch} rows cannot be divided evenly into {pieces} parts "
            "(dp x ep x micro-batches)"
        )


def apply(model: nn.Module, plan: Plan, mesh: Mesh) -> nn.Module:
    from torch.distributed._composable.replicate_with_fsdp import replicate
    from torch.nn.parallel import DistributedDataParallel

    if plan.layout.tp == 1:
        return DistributedDataParallel(model, process_group=mesh.group("data"))
    broadcast(model, mesh.group("data"))
    return replicate(model, mesh=mesh["data"])


def broadcast(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Has every rank begin with the parameters of the group's rank 0."""
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor

    for value in (parameter.detach() for parameter in model.parameters()):
        dist.broadcast(value.to_local() if isinstance(value, DTensor) else value, group=group, group_src=0)


def forward_backward(model: Any, plan: Plan, mesh: Mesh) -> ForwardBackward:
    from ringtree.training.step import MicroBatches

    def begin(last: bool) -> None:
        model.require_backward_grad_sync = last

    once = begin if plan.layout.tp == 1 else model.set_requires_gradient_sync
    return MicroBatches(model, plan.layout.micro_batches, once)


def traffic(plan: Plan) -> Iterable[Traffic]:
    ranks = plan.layout.dp * plan.layout.cp * plan.layout.ep
    yield Traffic("gradients", "all_reduce", "data", ranks, held_nbytes(plan))


STRATEGY = Strategy("data parallel", "dp", used, check, apply, traffic, forward_backward=forward_backward)
