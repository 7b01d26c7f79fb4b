"""Data parallelism (torch's DistributedDataParallel): each rank has the whole model and a share of the rows.

- At the start, rank 0's parameters are broadcast.
- In backward, gradients are averaged over the ranks by all_reduce, a bucket at a time as they become ready, while the
  rest of backward goes on; of several micro-batches, once, with the last. Every rank then makes the same optimizer
  step.
- Experts that ranks have shares of (expert_parallel.py) are averaged likewise, over those who have the same ones.

Bytes a rank receives in a step, over n ranks with P bytes of parameters: 2(n-1)/n P; where E bytes of a rank's are of
experts that m ranks have: 2(n-1)/n (P-E) + 2(m-1)/m E. In the second step DDP, which makes its buckets anew in the
order in which gradients became ready, tells that order besides, once: some hundred bytes.

DDP knows no DTensors: with tensor parallelism torch's `replicate` (FSDP2 that divides nothing) does the same to each
rank's parts of the parameters, in one all_reduce.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any
from warnings import filterwarnings

from ringtree.training.core.layout import LayoutError
from ringtree.training.core.plan import Plan
from ringtree.training.core.sizes import EXPERTS, held_nbytes
from ringtree.training.core.traffic import Traffic
from ringtree.training.strategies.strategy import Strategy

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel

    from ringtree.training.core.mesh import Mesh
    from ringtree.training.core.step import ForwardBackward

SECOND_STEP = "in its second step DDP tells all ranks the order of its buckets, once"


def used(plan: Plan) -> bool:
    layout = plan.layout
    return layout.zero <= 1 and layout.staleness is None and layout.size("data") > 1


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

    from ringtree.training.core.experts import stacks

    if plan.layout.tp > 1:
        # Scores are a view, and nobody writes to them in place, which is what it warns of.
        filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        broadcast(model, mesh.group("data"))
        return replicate(model, mesh=mesh["data"])
    experts = stacks(model) if plan.layout.ep > 1 else {}
    # What DDP itself reads to leave parameters out; torch documents no other way.
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, list(experts))
    # Gradients lie in the buckets that are sent: else a rank has all of them twice.
    replica = DistributedDataParallel(model, process_group=mesh.group("data"), gradient_as_bucket_view=True)
    for stack in experts.values():
        stack.register_post_accumulate_grad_hook(partial(_average, replica, mesh.group("expert_data")))
    return replica


def _average(replica: DistributedDataParallel, group: dist.ProcessGroup, stack: Tensor) -> None:
    """Of a gradient, when the replica's are averaged: with a step's last micro-batch."""
    import torch.distributed as dist

    if replica.require_backward_grad_sync and group.size() > 1:
        dist.all_reduce(stack.grad.to_local(), dist.ReduceOp.AVG, group)


def broadcast(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Has every rank begin with the parameters of the group's rank 0."""
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor

    for value in (parameter.detach() for parameter in model.parameters()):
        dist.broadcast(value.to_local() if isinstance(value, DTensor) else value, group=group, group_src=0)


def forward_backward(model: Any, plan: Plan, mesh: Mesh) -> ForwardBackward:
    from ringtree.training.core.step import MicroBatches

    def begin(last: bool) -> None:
        model.require_backward_grad_sync = last

    once = begin if plan.layout.tp == 1 else model.set_requires_gradient_sync
    return MicroBatches(model, plan.layout.micro_batches, once)


def traffic(plan: Plan) -> Iterable[Traffic]:
    data, same = plan.layout.size("data"), plan.layout.size("expert_data")
    experts_nbytes = held_nbytes(plan, EXPERTS) if plan.layout.ep > 1 else 0
    yield Traffic("gradients", "all_reduce", "data", data, held_nbytes(plan) - experts_nbytes)
    yield Traffic("experts' gradients", "all_reduce", "expert_data", same, experts_nbytes)


STRATEGY = Strategy("data parallel", "dp", used, check, apply, traffic, forward_backward=forward_backward)
