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
from ringtree.training.strategies.layers.send_receive import StageLink


def through(
    part: nn.Module, wire: StageLink, inputs: Sequence[Tensor], loss_of_output: Callable[[Tensor], Tensor] | None
) -> Tensor | None:
    """Runs a part forward and backward, on all ranks of the wire together. `inputs`: for the first part.
    `loss_of_output`: for the last part; its result is returned."""
    with wire:
        with phase("forward"), wire.work("forward 0"):
            output = part(*inputs)
            loss = None if loss_of_output is None else loss_of_output(output)
        with phase("backward"), wire.work("backward 0"):
            begin = [value for value in (output if loss is None else (loss,)) if value.requires_grad]
            torch.autograd.backward(begin)
        wire.settle()
    return loss


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
