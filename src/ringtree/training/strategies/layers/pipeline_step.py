"""A rank's stages of a pipeline, and a step: micro-batches forward and backward through them, by torch's schedules."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

from ringtree.training.core.language_model import loss_of
from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.stages import Stages, parts
from ringtree.training.core.step import phase
from ringtree.training.strategies.layers.pipeline import layers, stages

TORCHS: dict[str, Any] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B, "interleaved": ScheduleInterleaved1F1B}


class Pipeline:
    """A rank's stages under torch's schedule. All ranks construct theirs together: in torch's first step the stages
    exchange whether all shapes are known. The constructor runs that step and discards its gradients, so that all later
    steps send the same bytes."""

    def __init__(self, model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> None:
        layout, group = plan.layout, mesh.group("pp")
        position, of = mesh["pp"].get_local_rank(), stages(plan)
        self.first, self.last = position == 0, position == layout.pp - 1
        numbers = range(position, of, layout.pp)
        made = [_stage(part, k, plan, group) for part, k in zip(parts(model), numbers, strict=True)]
        kind = TORCHS[layout.schedule]
        several = layout.schedule == "interleaved"
        self._schedule = kind(made if several else made[0], n_microbatches=layout.micro_batches, loss_fn=loss_of)
        rows = torch.zeros(plan.settings.batch // layout.pieces, plan.positions, dtype=torch.long)
        self(rows, rows)
        model.zero_grad()

    def __call__(self, rows: Tensor, wanted: Tensor) -> Tensor:
        """The loss of this rank's rows where the last stage is, and 0 elsewhere; gradients where there were none
        before."""
        losses: list[Tensor] = []
        target: dict[str, Any] = {"target": wanted, "losses": losses} if self.last else {}
        self._schedule.step(*([rows] if self.first else []), return_outputs=False, **target)
        return torch.stack(losses).mean().detach() if self.last else torch.zeros(())


class Stage(PipelineStage):
    """A PipelineStage that names its micro-batch in traces."""

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        """Runs one micro-batch forward, under its name in a trace."""
        with phase("forward", f"forward {fwd_chunk_id} of stage {self.stage_index}"):
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> None:
        """Runs one micro-batch backward, under its name in a trace."""
        with phase("backward", f"backward {bwd_chunk_id} of stage {self.stage_index}"):
            super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)


def _stage(part: nn.Module, k: int, plan: TrainingPlan, group: dist.ProcessGroup) -> Stage:
    """Returns stage k with given input and output shapes. Without them torch runs the stage once to find out, and DDP
    would reduce that run's gradients."""
    sent = plan.positions // plan.layout.tp if plan.layout.sp else plan.positions
    between = torch.empty(plan.rows, sent, plan.shape.width, device="meta", requires_grad=True)
    rows = torch.empty(plan.rows, plan.positions, dtype=torch.long, device="meta")
    scores = torch.empty(plan.rows, plan.positions, plan.shape.vocabulary, device="meta", requires_grad=True)
    of = stages(plan)
    given, made = rows if k == 0 else between, scores if k == of - 1 else between
    return Stage(part, k, of, torch.device("cpu"), input_args=given, output_args=made, group=group)


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Returns the stages of this rank, each with its own copy of its layers."""
    return Stages(_layers_of(model, k, plan) for k in range(mesh["pp"].get_local_rank(), stages(plan), plan.layout.pp))


def _layers_of(model: nn.Module, k: int, plan: TrainingPlan) -> nn.Module:
    """A copy of the model with the k-th stage's layers only."""
    stage = deepcopy(model)
    stage.blocks = nn.ModuleDict({str(i): stage.blocks[str(i)] for i in layers(plan, k)})
    if k > 0:
        stage.embedding = None
    if k < stages(plan) - 1:
        stage.norm = stage.scores = None
    return stage
