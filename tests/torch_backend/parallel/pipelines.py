"""Pipelines: each rank has some layers, and activations and their gradients are sent between neighbours."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    SplitPoint,
    pipeline,
)
from torch.nn import functional as F

from tests.torch_backend.parallel.training import same, share

CPU = torch.device("cpu")
ROWS, WIDTH, PARTS = 16, 6, 8


def _layers(count: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(count)]


def _data() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(3)
    return torch.randn(ROWS, WIDTH, generator=random), torch.randn(ROWS, WIDTH, generator=random)


def _gradients(layers: list[nn.Module]) -> dict[str, Tensor]:
    return {f"{k}.{name}": p.grad for k, layer in enumerate(layers) for name, p in layer.named_parameters()}


def _expected(count: int, x: Tensor, y: Tensor) -> tuple[list[nn.Module], Tensor, Tensor]:
    layers = _layers(count)
    out = nn.Sequential(*layers)(x)
    loss = F.mse_loss(out, y)
    loss.backward()
    return layers, out, loss


def _runs(schedule: Any, mine: list[int], with_losses: bool = True, twice: bool = True) -> None:
    """One step, and another, of stages `mine` of this rank, of one layer each: gradients, outputs and losses."""
    n, me = dist.get_world_size(), dist.get_rank()
    count = n * len(mine)
    x, y = _data()
    layers = _layers(count)
    stages = [PipelineStage(layers[k], k, count, CPU) for k in mine]
    runner = schedule(stages[0] if len(mine) == 1 else stages, n_microbatches=PARTS, loss_fn=F.mse_loss)
    reference, out, loss = _expected(count, x, y)
    for _ in range(2 if twice else 1):
        for k in mine:
            layers[k].zero_grad()
        losses: list[Tensor] = []
        given = {"target": y} if count - 1 in mine else {}
        if given and with_losses:
            given["losses"] = losses
        got = runner.step(*([x] if 0 in mine else []), **given)
        same(_gradients([layers[k] for k in mine]), _gradients([reference[k] for k in mine]))
        if count - 1 in mine:
            torch.testing.assert_close(got, out)
            if with_losses:
                torch.testing.assert_close(torch.stack(losses).mean(), loss)
    assert me in range(n)


def gpipe() -> None:
    _runs(ScheduleGPipe, [dist.get_rank()])


def one_forward_one_backward() -> None:
    _runs(Schedule1F1B, [dist.get_rank()])


def without_losses() -> None:
    _runs(Schedule1F1B, [dist.get_rank()], with_losses=False)


def interleaved() -> None:
    n, me = dist.get_world_size(), dist.get_rank()
    _runs(ScheduleInterleaved1F1B, [me, me + n])


def looped() -> None:
    n, me = dist.get_world_size(), dist.get_rank()
    _runs(ScheduleLoopedBFS, [me, me + n])


def interleaved_zero_bubble() -> None:
    n, me = dist.get_world_size(), dist.get_rank()
    _runs(ScheduleInterleavedZeroBubble, [me, me + n])


def zero_bubble_v() -> None:
    """Each rank has a stage of the way down and one of the way up."""
    n, me = dist.get_world_size(), dist.get_rank()
    _runs(ScheduleZBVZeroBubble, [me, 2 * n - 1 - me])


def split_by_tracing() -> None:
    """A model cut at its layers by torch's tracer."""
    n, me = dist.get_world_size(), dist.get_rank()
    x, y = _data()

    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(_layers(n))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    cuts = {f"layers.{k}": SplitPoint.BEGINNING for k in range(1, n)}
    stage = pipeline(Stack(), mb_args=(x.chunk(PARTS)[0],), split_spec=cuts).build_stage(me, CPU)
    runner = ScheduleGPipe(stage, PARTS, loss_fn=F.mse_loss)
    reference, _, _ = _expected(n, x, y)
    runner.step(*([x] if me == 0 else []), **({"target": y} if me == n - 1 else {}))
    got = {name.replace("layers.", ""): p.grad for name, p in stage.submod.named_parameters()}
    expected = {f"{me}.{name}": p.grad for name, p in reference[me].named_parameters()}
    same(got, expected)


def with_data_parallelism() -> None:
    """Two pipelines of n/2 stages, whose gradients are averaged by DDP."""
    n, me = dist.get_world_size(), dist.get_rank()
    mesh = dist.init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("dp", "pp"))
    copy, place = mesh.get_coordinate()
    x, y = _data()
    [(mine_x, mine_y)] = share([(x, y)], copy, 2)
    layer = nn.parallel.DistributedDataParallel(_layers(n // 2)[place], process_group=mesh["dp"].get_group())
    stage = PipelineStage(layer, place, n // 2, CPU, group=mesh["pp"].get_group())
    runner = ScheduleGPipe(stage, 4, loss_fn=F.mse_loss)
    runner.step(*([mine_x] if place == 0 else []), **({"target": mine_y} if place == n // 2 - 1 else {}))
    reference, _, _ = _expected(n // 2, x, y)
    same(_gradients([layer.module]), _gradients([reference[place]]))
    assert me == copy * (n // 2) + place
