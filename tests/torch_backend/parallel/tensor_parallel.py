"""Tensor parallelism: a layer's matrices cut by columns or rows, its tokens by their place."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F

from tests.torch_backend.parallel.fsdp2 import whole
from tests.torch_backend.parallel.training import (
    Transformer,
    alone,
    same,
    sentences,
    share,
    train,
    transformer,
)

BLOCK = {
    "attention.query": ColwiseParallel(),
    "attention.key": ColwiseParallel(),
    "attention.value": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "up": ColwiseParallel(),
    "down": RowwiseParallel(),
}


def cut(model: Transformer, mesh: DeviceMesh) -> Transformer:
    for block in model.blocks:
        parallelize_module(block, mesh, BLOCK)
    outside = {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    return parallelize_module(model, mesh, outside)


def _line() -> DeviceMesh:
    return init_device_mesh("cpu", (dist.get_world_size(),))


def columns_and_rows() -> None:
    model = cut(transformer(), _line())
    train(model, sentences())
    same(whole(model), alone(sentences()))


def sequences() -> None:
    """Between the layers each rank has some of the tokens."""
    mesh = _line()

    def make() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.LayerNorm(8))

    model, reference = make(), make()
    plan = {
        "0": SequenceParallel(),
        "1": ColwiseParallel(input_layouts=Shard(1)),
        "3": RowwiseParallel(output_layouts=Shard(1)),
        "4": SequenceParallel(),
    }
    parallelize_module(model, mesh, plan)
    parallelize_module(
        model,
        mesh,
        PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1), use_local_output=False),
    )
    parallelize_module(model, mesh, PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate()))
    x = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(1))
    mine, theirs = model(x), reference(x)
    torch.testing.assert_close(mine, theirs)
    mine.square().sum().backward()
    theirs.square().sum().backward()
    got = {name: p.grad.full_tensor() for name, p in model.named_parameters()}
    same(got, {name: p.grad for name, p in reference.named_parameters()}, tolerance=1e-4)


def losses() -> None:
    """Cross entropy of scores that are cut by classes."""
    mesh = _line()
    torch.manual_seed(0)
    model, reference = nn.Linear(6, 8), nn.Linear(6, 8)
    reference.load_state_dict(model.state_dict())
    parallelize_module(model, mesh, ColwiseParallel(use_local_output=False))
    x, y = torch.randn(5, 6, generator=torch.Generator().manual_seed(1)), torch.arange(5)
    with loss_parallel():
        got = F.cross_entropy(model(x), y)
        got.backward()
    expected = F.cross_entropy(reference(x), y)
    expected.backward()
    torch.testing.assert_close(got.full_tensor(), expected)
    same({"w": model.weight.grad.full_tensor()}, {"w": reference.weight.grad})


def with_fsdp2() -> None:
    """Cut in one direction by columns and rows, in the other among replicas."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "tp"))
    model = cut(transformer(), mesh["tp"])
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    train(model, share(sentences(), mesh.get_local_rank("dp"), 2))
    same(whole(model), alone(sentences()))
