"""Training in one process: a loop of plain torch without layouts, the reference for all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from ringtree.training.core.language_model import language_model, loss_of
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.text import batch


def alone(plan: TrainingPlan) -> tuple[list[float], dict[str, Tensor]]:
    """Losses, a step each, and the weights after the last. The rows go through the model in the pieces in which the
    plan divides them, one after another, for experts look at a piece at a time."""
    settings, layout = plan.settings, plan.layout
    model = language_model(plan.shape, settings.seed)
    kinds = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    optimizer = kinds[settings.optimizer](model.parameters(), lr=settings.rate)
    pieces = layout.pieces * layout.micro_batches
    losses = []
    for step in range(settings.steps):
        rows, wanted = batch(step, settings.batch, plan.shape.context, settings.seed)
        optimizer.zero_grad()
        losses.append(0.0)
        for x, y in zip(rows.chunk(pieces), wanted.chunk(pieces), strict=True):
            loss = loss_of(model(x), y)
            loss.backward()
            losses[-1] += loss.item() / pieces
        for value in model.parameters():  # not the loss: experts add one of their own in backward
            value.grad /= pieces
        optimizer.step()
    return losses, {name: value.detach() for name, value in model.state_dict().items()}
