"""A rank's part of a model: its stages of a pipeline, one after another, and their parameters, by the names that one
process has under every layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan

Apply = Callable[[nn.Module, TrainingPlan, TrainingMesh], nn.Module]


class Stages(nn.ModuleList):
    """A rank's stages in their order. A layer's name within its stage is its name in the whole model."""


def parts(model: nn.Module) -> Sequence[nn.Module]:
    """The stages, or the one model that is not divided into any."""
    return list(model) if isinstance(model, Stages) else [model]


def each(apply: Apply, model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Applies a strategy to the model, or to its stages one by one."""
    if isinstance(model, Stages):
        return Stages(apply(stage, plan, mesh) for stage in model)
    return apply(model, plan, mesh)


def named(model: nn.Module) -> dict[str, Tensor]:
    """This rank's parameters; of a divided one (DTensor) its part. DDP and asynchronous workers wrap a "module"."""
    return {name.removeprefix("module."): value for part in parts(model) for name, value in part.named_parameters()}


def whole(model: nn.Module, pipeline: dist.ProcessGroup | None) -> dict[str, Tensor]:
    """Copies of all parameters by name, on every rank; all ranks call it. `pipeline`: the ranks that have the other
    stages."""
    got = {name: value.detach() for name, value in named(model).items()}
    mine = {n: (v.full_tensor() if isinstance(v, DTensor) else v).clone() for n, v in got.items()}
    if not isinstance(model, Stages):
        return mine
    theirs: list[dict[str, Tensor]] = [{}] * dist.get_world_size(pipeline)
    dist.all_gather_object(theirs, mine, group=pipeline)
    return {name: value for stages in theirs for name, value in stages.items()}
