"""Data parallelism and ZeRO 1 by torch: each rank has the whole model; ZeRO 1 divides the optimizer's state."""

from __future__ import annotations

from functools import partial
from typing import Any
from warnings import filterwarnings

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from ringtree.training.core.experts import stacks
from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.step import KINDS, ForwardBackward, MicroBatches


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Returns the model with gradients averaged in backward: DDP, or torch's `replicate` with tensor parallelism."""
    if plan.layout.tp > 1:
        from torch.distributed._composable.replicate_with_fsdp import replicate

        # FSDP2 warns of writing to a view in place: scores are a view, but nothing writes to scores.
        filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        broadcast(model, mesh.group("data"))
        return replicate(model, mesh=mesh["data"])
    experts = stacks(model) if plan.layout.ep > 1 else {}
    # What DDP itself reads to leave parameters out; torch documents no other means.
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, list(experts))
    # Gradients lie in the buckets that are sent: else a rank has all of them twice.
    replica = DistributedDataParallel(model, process_group=mesh.group("data"), gradient_as_bucket_view=True)
    for stack in experts.values():
        stack.register_post_accumulate_grad_hook(partial(_average, replica, mesh.group("expert_data")))
    return replica


def _average(replica: DistributedDataParallel, group: dist.ProcessGroup, stack: Tensor) -> None:
    """Averages an expert's gradient when the replica averages its own: with a step's last micro-batch."""
    if replica.require_backward_grad_sync and group.size() > 1:
        dist.all_reduce(stack.grad.to_local(), dist.ReduceOp.AVG, group)


def broadcast(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Copies the parameters of the group's rank 0 to every rank."""
    for value in (parameter.detach() for parameter in model.parameters()):
        dist.broadcast(_held(value), group=group, group_src=0)


def _held(value: Tensor) -> Tensor:
    """The rank's part of a tensor that tensor parallel ranks divide, or all of it."""
    return value.to_local() if isinstance(value, DTensor) else value


def forward_backward(model: Any, plan: TrainingPlan, mesh: TrainingMesh) -> ForwardBackward:
    """Returns passes that average gradients once a step, with the last micro-batch."""

    def begin(last: bool) -> None:
        model.require_backward_grad_sync = last

    once = begin if plan.layout.tp == 1 else model.set_requires_gradient_sync
    return MicroBatches(model, plan.layout.micro_batches, once)


def optimizer(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> Optimizer:
    """Returns ZeRO 1's optimizer: each rank keeps the state of its share of the parameters."""
    kind = KINDS[plan.settings.optimizer]
    return _OfParts(model.parameters(), kind, process_group=mesh.group("data"), lr=plan.settings.rate)


class _OfParts(ZeroRedundancyOptimizer):
    """torch's, which broadcasts no DTensor: here each rank broadcasts its part."""

    def _sync_params(self) -> None:
        begun = [
            dist.broadcast(_held(value.detach()), group=self.process_group, group_src=rank, async_op=True)
            for rank, groups in enumerate(self._partition_parameters())
            for group in groups
            for value in group["params"]
        ]
        for call in begun:
            call.wait()
