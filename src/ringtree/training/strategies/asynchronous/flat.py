"""A model's parameters as one vector, and their gradients as another: what is sent whole, or cut evenly."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ringtree.training.core.plan import STATE, TrainingSettings
from ringtree.training.core.step import optimizer_of


class Flat:
    """A model's `weights` and `gradients` in one vector each, [parameters] of float32; the model's own are views of
    them."""

    def __init__(self, model: nn.Module) -> None:
        self.parameters = list(model.parameters())
        with torch.no_grad():
            self.weights = torch.cat([p.flatten() for p in self.parameters])
            self.gradients = torch.zeros_like(self.weights)
            for p, weights, gradients in zip(
                self.parameters, self.views(self.weights), self.views(self.gradients), strict=True
            ):
                p.data, p.grad = weights, gradients

    def views(self, vector: Tensor) -> list[Tensor]:
        """The views of `vector` [parameters] in the shapes of the parameters."""
        parts = vector.split([p.numel() for p in self.parameters])
        return [part.view_as(p) for part, p in zip(parts, self.parameters, strict=True)]


class Updated:
    """Weights that gradients are applied to as they come: `gathered` of them make one step of the optimizer, by their
    sum over `workers`. `vectors`: the weights and the optimizer's state of each, by their names; `steps`: done."""

    def __init__(self, weights: Tensor, settings: TrainingSettings, workers: int, gathered: int) -> None:
        self.weights, self._workers, self._gathered = weights, workers, gathered
        self.weights.grad = torch.zeros_like(weights)
        self.optimizer = optimizer_of(settings, [self.weights])
        kinds = STATE[settings.optimizer]
        self.steps = torch.zeros(())
        state = {kind: torch.zeros_like(weights) for kind in kinds}
        self.vectors = {"weights": self.weights, **state}
        if kinds:
            self.optimizer.state[self.weights] = {"step": self.steps, **state}
        self._here = 0

    def apply(self, gradient: Tensor) -> None:
        """Adds one worker's gradient, [parameters]; the last of `gathered` makes the optimizer's step."""
        self.weights.grad.add_(gradient, alpha=1 / self._workers)
        self._here += 1
        if self._here == self._gathered:
            self.optimizer.step()
            self.weights.grad.zero_()
            self._here = 0
