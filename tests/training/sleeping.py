"""Pipelines whose stages sleep instead of computing, so that few cores carry many ranks: their schedules and
messages are real, and how long a pass takes is known."""

from __future__ import annotations

import time
from typing import Any
from weakref import finalize

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ringtree.ir.trace import Trace
from ringtree.torch_backend import communicator
from ringtree.training import ParallelLayout
from ringtree.training.strategies.layers.pipeline_order import STAGES_A_RANK
from ringtree.training.strategies.layers.pipeline_step import TORCHS, Stage

WIDTH = 4


class Nap(torch.autograd.Function):
    """Sleeps, and keeps its input until backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: tuple[float, float], held: list[int]) -> Tensor:
        kept = x.clone()
        ctx.seconds = seconds
        ctx.save_for_backward(kept)
        held.append(held[-1] + 1)
        finalize(kept, lambda: held.append(held[-1] - 1))
        time.sleep(seconds[0])
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        time.sleep(ctx.seconds[1])
        return gradient.clone(), None, None


class Sleeper(nn.Module):
    def __init__(self, seconds: tuple[float, float]) -> None:
        super().__init__()
        self.layer, self.seconds = nn.Linear(WIDTH, WIDTH), seconds
        self.held = [0]

    def forward(self, x: Tensor) -> Tensor:
        return Nap.apply(self.layer(x), self.seconds, self.held)


class Pipeline:
    """Over all ranks. `held`: of how many micro-batches this rank had activations at most."""

    def __init__(self, layout: ParallelLayout, forward_s: float, backward_s: float) -> None:
        me, v = dist.get_rank(), STAGES_A_RANK[layout.schedule]
        self.rows = torch.ones(layout.micro_batches, WIDTH)
        self.first, self.last = me == 0, me == layout.pp - 1
        self.parts = [Sleeper((forward_s / v, backward_s / v)) for _ in range(v)]
        row, cpu = torch.zeros(1, WIDTH, requires_grad=True), torch.device("cpu")
        stages = [
            Stage(part, me + k * layout.pp, v * layout.pp, cpu, input_args=row, output_args=row)
            for k, part in enumerate(self.parts)
        ]
        kind = TORCHS[layout.schedule]
        self.schedule = kind(stages if v > 1 else stages[0], layout.micro_batches, loss_fn=nn.functional.mse_loss)

    def step(self) -> Trace:
        with communicator().trace() as recording:
            self.schedule.step(*([self.rows] if self.first else []), **({"target": self.rows} if self.last else {}))
        return recording.trace

    @property
    def held(self) -> int:
        return max(max(part.held) for part in self.parts)
