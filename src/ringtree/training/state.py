"""What a trainer has to keep, by names and in shapes that are the same under every layout."""

from __future__ import annotations

from torch import Tensor, nn
from torch.distributed.tensor import DTensor


def named(model: nn.Module) -> dict[str, Tensor]:
    """This rank's parameters by the names of one process; of a divided one (DTensor) its part."""
    return {name.replace("module.", ""): value for name, value in model.named_parameters()}


def whole(model: nn.Module) -> dict[str, Tensor]:
    """All parameters, on every rank, which all come here; copies."""
    got = {name: value.detach() for name, value in named(model).items()}
    return {n: (v.full_tensor() if isinstance(v, DTensor) else v).clone() for n, v in got.items()}
