"""What torch's FSDP2 makes of a model whose parameters data parallel ranks divide, by ZeRO 2 and 3."""

from __future__ import annotations

from typing import Any
from warnings import filterwarnings

from torch import nn
from torch.distributed.fsdp import fully_shard

from ringtree.training.core.experts import layers
from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.step import ForwardBackward, MicroBatches


def _shard(model: Any, mesh: TrainingMesh, keep: bool) -> nn.Module:
    """Block by block, and together what is outside of them; a block's experts among those who have the same ones.
    `keep`: parameters from forward to backward."""
    # Scores are a view, and nobody writes to them in place, which is what it warns of.
    filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    for layer in layers(model):
        fully_shard(layer.experts, mesh=mesh["expert_data"], reshard_after_forward=not keep)
    for module in (*model.blocks.values(), model):
        fully_shard(module, mesh=mesh["data"], reshard_after_forward=not keep)
    return model


def keep(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """ZeRO 2."""
    return _shard(model, mesh, keep=True)


def give_up(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """ZeRO 3."""
    return _shard(model, mesh, keep=False)


def forward_backward(model: Any, plan: TrainingPlan, mesh: TrainingMesh) -> ForwardBackward:
    return MicroBatches(model, plan.layout.micro_batches, model.set_reshard_after_backward)
