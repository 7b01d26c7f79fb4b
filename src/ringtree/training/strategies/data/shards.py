"""ZeRO 2 and 3 by torch's FSDP2: data parallel ranks divide parameters, gradients and optimizer state."""

from __future__ import annotations

from typing import Any
from warnings import filterwarnings

from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard

from ringtree.training.core.experts import layers
from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import shard_dimension
from ringtree.training.core.step import ForwardBackward, MicroBatches


def _shard(model: Any, mesh: TrainingMesh, keep: bool) -> nn.Module:
    """Divides the model block by block, and embedding, norm and scores as one block; experts among the ranks that have
    the same experts. `keep`: gathered parameters stay from forward to backward."""
    # FSDP2 warns of writing to a view in place: scores are a view, but nothing writes to scores.
    filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    same = mesh["expert_data"]

    def place(stack: nn.Parameter) -> Shard:
        mine = stack.to_local() if isinstance(stack, DTensor) else stack
        return Shard(shard_dimension(tuple(mine.shape), same.size()))

    for layer in layers(model):
        fully_shard(layer.experts, mesh=same, reshard_after_forward=not keep, shard_placement_fn=place)
    for module in (*model.blocks.values(), model):
        fully_shard(module, mesh=mesh["data"], reshard_after_forward=not keep)
    return model


def keep(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Returns the model as ZeRO 2 divides it: gathered parameters stay until the last backward pass."""
    return _shard(model, mesh, keep=True)


def give_up(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Returns the model as ZeRO 3 divides it: gathered parameters are freed after each pass."""
    return _shard(model, mesh, keep=False)


def forward_backward(model: Any, plan: TrainingPlan, mesh: TrainingMesh) -> ForwardBackward:
    """Returns passes after whose last micro-batch alone FSDP2 frees the gathered parameters."""
    return MicroBatches(model, plan.layout.micro_batches, model.set_reshard_after_backward)
