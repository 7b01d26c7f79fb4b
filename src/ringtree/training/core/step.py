"""One step's forward and backward passes, by which the gradients of its rows come into the parameters.

A strategy that goes through them in another way, as a pipeline does, gives the trainer a `ForwardBackward` of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ringtree.training.core.language_model import loss_of
from ringtree.training.core.phases import phase

ForwardBackward = Callable[[Tensor, Tensor], Tensor]
"""This rank's rows of a step, and what follows each of their places -> their mean loss, detached. Gradients were none
before; after, each parameter's is that of the mean over the rows of all ranks."""


class MicroBatches:
    """The rows in `micro_batches` parts, one after another, whose gradients add up. `begin(last)` is called before
    each: what is sent or kept once a step waits for the last. Gradients are divided by the number of parts, not losses,
    for a layer of experts adds a loss of its own in each part's backward pass."""

    def __init__(self, model: nn.Module, micro_batches: int, begin: Callable[[bool], None] = lambda last: None) -> None:
        self.model, self.micro_batches, self.begin = model, micro_batches, begin

    def __call__(self, rows: Tensor, wanted: Tensor) -> Tensor:
        parts = zip(rows.chunk(self.micro_batches), wanted.chunk(self.micro_batches), strict=True)
        losses = [self._one(x, y, number == self.micro_batches) for number, (x, y) in enumerate(parts, 1)]
        for value in self.model.parameters() if self.micro_batches > 1 else ():
            if value.grad is not None:
                value.grad /= self.micro_batches
        return sum(losses[1:], losses[0]) / self.micro_batches

    def _one(self, rows: Tensor, wanted: Tensor, last: bool) -> Tensor:
        self.begin(last)
        with phase("forward"):
            loss = loss_of(self.model(rows), wanted)
        with phase("backward"):
            loss.backward()
        return loss.detach()
