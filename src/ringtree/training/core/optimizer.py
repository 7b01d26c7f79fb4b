"""What changes the parameters by their gradients."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from ringtree.training.core.plan import Settings

KINDS: dict[str, type[torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}

STATE = {"adamw": ("exp_avg", "exp_avg_sq"), "sgd": ()}
"""What they remember of each parameter, in tensors of its shape."""


def optimizer_of(settings: Settings, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return KINDS[settings.optimizer](parameters, lr=settings.rate)


def holder(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """That which has this rank's state: ZeRO 1's is within another, for all parameters."""
    own: torch.optim.Optimizer = getattr(optimizer, "optim", optimizer)
    return own
