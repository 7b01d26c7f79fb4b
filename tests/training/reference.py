"""Training in one process: a loop of plain torch without layouts, the reference for all of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ringtree.training.core.language_model import language_model, loss_of
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.rows import batch

LEAST_GRADIENT = 1e-7
"""Below it a gradient is mostly the rounding of its sum, whose parts are 1e-3 and more. AdamW divides a gradient by its
size plus 1e-8, and makes a step of that."""


class Trained(NamedTuple):
    """Losses, a step each; the weights after the last; for each weight whether a step made something of rounding."""

    losses: list[float]
    weights: dict[str, Tensor]
    rounded: dict[str, Tensor]


def alone(plan: TrainingPlan) -> Trained:
    """The rows go through the model in the pieces in which the plan divides them, one after another, for experts look
    at a piece at a time."""
    settings, layout = plan.settings, plan.layout
    model = language_model(plan.shape, settings.seed)
    kinds = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    optimizer = kinds[settings.optimizer](model.parameters(), lr=settings.rate)
    pieces = layout.pieces * layout.micro_batches
    losses = []
    rounded = {name: torch.zeros_like(value, dtype=torch.bool) for name, value in model.named_parameters()}
    for step in range(settings.steps):
        rows, wanted = batch(step, settings.batch, plan.shape.context, settings.seed)
        optimizer.zero_grad()
        losses.append(0.0)
        for x, y in zip(rows.chunk(pieces), wanted.chunk(pieces), strict=True):
            loss = loss_of(model(x), y)
            loss.backward()
            losses[-1] += loss.item() / pieces
        for name, value in model.named_parameters():
            value.grad /= pieces  # not the loss: experts add one of their own in backward
            if settings.optimizer == "adamw":
                rounded[name] |= (value.grad != 0) & (value.grad.abs() < LEAST_GRADIENT)
        optimizer.step()
    return Trained(losses, {name: value.detach() for name, value in model.named_parameters()}, rounded)
