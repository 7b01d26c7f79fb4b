"""The parts of a step: forward and backward passes, by which the gradients of its rows come into the parameters, and
the optimizer, which changes these by them. A trace of the step has each of these phases as a span.

A strategy with another order of passes, as a pipeline, gives the trainer a `ForwardBackward` of its own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from time import time_ns
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ringtree.torch_backend import communicator
from ringtree.training.core.language_model import loss_of
from ringtree.training.core.plan import TrainingSettings

ForwardBackward = Callable[[Tensor, Tensor], Tensor]
"""This rank's rows of a step, and what follows each of their positions -> their mean loss, detached. Gradients were
none before; after, each parameter's is that of the mean over the rows of all ranks."""


class MicroBatches:
    """The rows in `micro_batches` parts, one after another, whose gradients add up. `begin(last)` is called before
    each: what is sent or kept once a step waits for the last. Gradients are divided by the number of parts, not losses,
    for a layer of experts adds a loss of its own in each part's backward pass."""

    def __init__(self, model: nn.Module, micro_batches: int, begin: Callable[[bool], None] = lambda last: None) -> None:
        self.model, self.micro_batches, self.begin = model, micro_batches, begin

    def __call__(self, rows: Tensor, wanted: Tensor) -> Tensor:
        """The mean loss of the micro-batches; gradients are added to the parameters'."""
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


LATEST: deque[tuple[str, int, int]] = deque(maxlen=4096)
"""Phases that have ended: name, and when it began and ended, in ns as time.time_ns has it."""


@contextmanager
def phase(name: str, work: str = "") -> Iterator[None]:
    """A phase of a step, while its block runs. `work`: its name in a trace, if not the phase's."""
    begun_ns = time_ns()
    try:
        with communicator().span(work or name) if dist.is_initialized() else nullcontext():
            yield
    finally:
        LATEST.append((name, begun_ns, time_ns()))


def phase_at(moment_ns: int) -> str:
    """The innermost phase at a moment; "" for none."""
    at = [(begun, name) for name, begun, ended in LATEST if begun <= moment_ns <= ended]
    return max(at)[1] if at else ""


KINDS: dict[str, type[torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def optimizer_of(settings: TrainingSettings, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer of the settings' kind and learning rate for these parameters."""
    return KINDS[settings.optimizer](parameters, lr=settings.rate)


def holder(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer that has this rank's state: ZeRO 1's is within another, for all parameters."""
    own: torch.optim.Optimizer = getattr(optimizer, "optim", optimizer)
    return own


BACKWARD_PASSES = 2
"""The computation of a backward pass, in forward passes."""


def slow_down(model: nn.Module, factor: float, forwards: int) -> None:
    """Makes a rank slower than the others, to show the waits for it. After each forward it sleeps, for as long as a
    step that takes `factor` times what this one's computation does, of `forwards` and a backward pass, would still
    take. The processor's time counts, so that it is as much slower on a busy machine."""
    begun_s = 0.0

    def begin(*_: Any) -> None:
        nonlocal begun_s
        begun_s = time.thread_time()

    def end(*_: Any) -> None:
        time.sleep((factor - 1) * (forwards + BACKWARD_PASSES) * (time.thread_time() - begun_s))

    model.register_forward_pre_hook(begin)
    model.register_forward_hook(end)
