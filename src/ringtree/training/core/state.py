"""A model's parameters by the names of one process, under every layout: a rank's part of them, and all of them."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from ringtree.training.core.stages import Stages, parts


def named(model: nn.Module) -> dict[str, Tensor]:
    """This rank's parameters; of a divided one (DTensor) its part. DDP and asynchronous workers wrap a "module"."""
    return {name.removeprefix("module."): value for part in parts(model) for name, value in part.named_parameters()}


def whole(model: nn.Module, pipeline: dist.ProcessGroup | None) -> dict[str, Tensor]:
    """All parameters, on every rank, which all come here; copies. `pipeline`: the ranks that have the other stages."""
    got = {name: value.detach() for name, value in named(model).items()}
    mine = {n: (v.full_tensor() if isinstance(v, DTensor) else v).clone() for n, v in got.items()}
    if not isinstance(model, Stages):
        return mine
    theirs: list[dict[str, Tensor]] = [{}] * dist.get_world_size(pipeline)
    dist.all_gather_object(theirs, mine, group=pipeline)
    return {name: value for stages in theirs for name, value in stages.items()}
