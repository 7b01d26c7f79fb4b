"""A model that is cut into parts, and a step of it: this rank's part forward, then backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ringtree.training.core.language_model import Embedding, TransformerBlock, loss_of
from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.stages import Stages, parts
from ringtree.training.core.step import phase
from ringtree.training.strategies.layers.cut_pass import split
from ringtree.training.strategies.layers.pipeline import layers
from ringtree.training.strategies.layers.send_receive import GradientNotSent, StageLink


def through(
    part: nn.Module, wire: StageLink, inputs: Sequence[Tensor], loss_of_output: Callable[[Tensor], Tensor] | None
) -> Tensor | None:
    """Runs a part forward and backward, on all ranks of the wire together. `inputs`: for the first part.
    `loss_of_output`: for the last part; its result is returned. An error on one rank aborts the wire's group, so
    that no other waits for it. ValueError: if a value requires a gradient that it did not when the model was cut."""
    with wire:
        with phase("forward"), wire.work("forward 0"):
            try:
                output = part(*inputs)
            except GradientNotSent as error:
                raise GradientNotSent(*error.of, _sources(error.of[0], part, inputs)) from None
            loss = None if loss_of_output is None else loss_of_output(output)
        with phase("backward"), wire.work("backward 0"):
            begin = [value for value in (output if loss is None else (loss,)) if value.requires_grad]
            torch.autograd.backward(begin)
        wire.settle()
    return loss


def _sources(value: Tensor, part: nn.Module, inputs: Sequence[Tensor]) -> str:
    """The names of the part's parameters and inputs from which a value's requirement of a gradient comes."""
    seen: set[object] = {id(value)}
    ahead = [value.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen |= {node, id(getattr(node, "variable", None))}
            ahead += [before for before, _ in node.next_functions]
    named = (*part.named_parameters(), *part.named_buffers(), *((f"input {k}", x) for k, x in enumerate(inputs)))
    return ", ".join(name for name, x in named if x.requires_grad and (id(x) in seen or x.grad_fn in seen))


class LayerSplit:
    """Forward and backward through this rank's part of the model, with sends and receives at its cuts."""

    def __init__(self, model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> None:
        (self._part,) = parts(model)
        position = mesh["pp"].get_local_rank()
        self._first, self._last = position == 0, position == mesh["pp"].size() - 1
        self._wire = StageLink(mesh.group("pp"))

    def __call__(self, rows: Tensor, wanted: Tensor) -> Tensor:
        """The loss of this rank's rows where the last part is, and 0 elsewhere."""
        inputs = [rows] if self._first else []
        loss = through(self._part, self._wire, inputs, (lambda scores: loss_of(scores, wanted)) if self._last else None)
        return torch.zeros(()) if loss is None else loss.detach()


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Returns this rank's part of the model's graph, which is cut before each stage's first block."""
    rows = torch.zeros(plan.rows, plan.shape.context, dtype=torch.long)
    cuts = [f"blocks.{layers(plan, stage).start}" for stage in range(1, plan.layout.pp)]
    parts = split(model, cuts, [rows], leaf=lambda module: isinstance(module, (TransformerBlock, Embedding)))
    return Stages([parts[mesh["pp"].get_local_rank()]])
