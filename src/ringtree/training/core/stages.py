"""A rank's stages of a pipeline: what the strategies that follow are applied to, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from ringtree.training.core.mesh import Mesh
from ringtree.training.core.plan import Plan

Apply = Callable[[nn.Module, Plan, Mesh], nn.Module]


class Stages(nn.ModuleList):
    """In their order. A layer's name within its stage is its name in the whole model."""


def parts(model: nn.Module) -> Sequence[nn.Module]:
    """The stages, or the one model that is not divided into any."""
    return list(model) if isinstance(model, Stages) else [model]


def each(apply: Apply, model: nn.Module, plan: Plan, mesh: Mesh) -> nn.Module:
    """What a strategy makes of the model, or of its stages one by one."""
    if isinstance(model, Stages):
        return Stages(apply(stage, plan, mesh) for stage in model)
    return apply(model, plan, mesh)
