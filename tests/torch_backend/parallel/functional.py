"""Collectives in the graph: functional ones, those with gradients, and what torch.compile makes of both."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.nn.functional as graph
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP

from tests.torch_backend.parallel.fsdp2 import sharded, whole
from tests.torch_backend.parallel.training import alone, same, sentences, share, state, train, transformer


def _row(rank: int | None = None, columns: int = 6) -> Tensor:
    rank = dist.get_rank() if rank is None else rank
    return torch.arange(float(columns)) + 10 * rank


def _rows() -> Tensor:
    return torch.stack([_row(rank) for rank in range(dist.get_world_size())])


def values() -> None:
    n, me, world = dist.get_world_size(), dist.get_rank(), dist.group.WORLD
    same(
        {
            "all_reduce": funcol.all_reduce(_row(), "sum", world),
            "avg": funcol.all_reduce(_row(), "avg", world),
            "all_gather": funcol.all_gather_tensor(_row()[None], 0, world),
            "all_gather 1": funcol.all_gather_tensor(_row()[:, None], 1, world),
            "reduce_scatter": funcol.reduce_scatter_tensor(_rows(), "sum", 0, world),
            "broadcast": funcol.broadcast(_row(), 1, world),
            "all_to_all": funcol.all_to_all_single(_rows() + me, None, None, world),
            "permute": funcol.permute_tensor(_row(), [(r + 1) % n for r in range(n)], world),
        },
        {
            "all_reduce": _rows().sum(0),
            "avg": _rows().mean(0),
            "all_gather": _rows(),
            "all_gather 1": _rows().t(),
            "reduce_scatter": _rows()[me : me + 1] * n,
            "broadcast": _row(1),
            "all_to_all": torch.stack([_row(me) + r for r in range(n)]),
            "permute": _row((me - 1) % n),
        },
    )


def several_at_once() -> None:
    n, world = dist.get_world_size(), dist.group.WORLD
    sums = funcol.all_reduce_coalesced([_row(), _row() * 2], "sum", world)
    rows = funcol.all_gather_into_tensor_coalesced([_row()[None], _row()[None, :2]], world)
    parts = funcol.reduce_scatter_tensor_coalesced([_rows(), _rows() * 2], "sum", [0, 0], world)
    got = {str(k): x * 1 for k, x in enumerate([*sums, *rows, *parts])}
    mine = _row()[None] * n
    expected = [_rows().sum(0), _rows().sum(0) * 2, _rows(), _rows()[:, :2], mine, mine * 2]
    same(got, {str(k): x for k, x in enumerate(expected)})


def in_groups() -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("a", "b"))
    x = funcol.all_reduce(_row(), "sum", (mesh, 1))
    pair = dist.get_rank() // 2 * 2
    assert torch.equal(x, _row(pair) + _row(pair + 1))


def with_gradients() -> None:
    """Of every functional collective that has one: what a rank's input did to the sum of all ranks' losses."""
    n, me, world = dist.get_world_size(), dist.get_rank(), dist.group.WORLD
    weights = _rows() + 1

    def gradient(x: Tensor, function: Callable[[Tensor], Tensor], weight: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        (function(x) * weight).sum().backward()
        return x.grad

    gathered = gradient(_row()[None], lambda x: funcol.all_gather_tensor_autograd(x, 0, world), weights)
    scattered = gradient(
        _rows(), lambda x: funcol.reduce_scatter_tensor_autograd(x, "sum", 0, world), weights[me : me + 1]
    )
    exchanged = gradient(_rows(), lambda x: funcol.all_to_all_single_autograd(x, None, None, world), weights + me)
    same(
        {"all_gather": gathered, "reduce_scatter": scattered, "all_to_all": exchanged},
        {
            "all_gather": weights[me : me + 1] * n,
            "reduce_scatter": weights,
            "all_to_all": torch.stack([weights[me] + r for r in range(n)]),
        },
    )


def dist_nn() -> None:
    """torch.distributed.nn.functional."""
    n, me = dist.get_world_size(), dist.get_rank()

    def gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        function(x).backward()
        return x.grad

    ramp = _row()
    same(
        {
            "all_reduce": gradient(lambda x: (graph.all_reduce(x) * (me + 1)).sum(), ramp),
            "broadcast": gradient(lambda x: (graph.broadcast(x, 0) * (me + 1)).sum(), ramp),
            "reduce": gradient(lambda x: (graph.reduce(x, 0) * (me + 1)).sum(), ramp),
            "all_gather": gradient(lambda x: sum((y * (k + 1)).sum() for k, y in enumerate(graph.all_gather(x))), ramp),
            "all_to_all": gradient(
                lambda x: sum(
                    (y * (k + 1)).sum()
                    for k, y in enumerate(
                        graph.all_to_all([torch.empty(6) for _ in range(n)], list(x.expand(n, 6).unbind()))
                    )
                ),
                ramp,
            ),
            "scatter": gradient(lambda x: (graph.scatter([x * (k + 1) for k in range(n)], 0) * (me + 1)).sum(), ramp),
        },
        {
            "all_reduce": torch.full((6,), n * (n + 1) / 2),
            "broadcast": torch.full((6,), n * (n + 1) / 2 if me == 0 else 0.0),
            "reduce": torch.full((6,), 1.0),
            "all_gather": torch.full((6,), n * (me + 1.0)),
            "all_to_all": torch.full((6,), n * (me + 1.0)),
            "scatter": torch.full((6,), sum((k + 1.0) ** 2 for k in range(n)) if me == 0 else 0.0),
        },
    )


def compiled() -> None:
    """One graph with collectives in it."""
    n, me, world = dist.get_world_size(), dist.get_rank(), dist.group.WORLD

    def function(x: Tensor) -> Tensor:
        total = funcol.all_reduce(x * 2, "sum", world)
        rows = funcol.all_gather_tensor(total[None] + x, 0, world)
        return funcol.reduce_scatter_tensor(rows, "sum", 0, world) + 1

    got = torch.compile(function, backend="aot_eager", fullgraph=True)(_row())
    torch.testing.assert_close(got, function(_row()))
    torch.testing.assert_close(got, ((_rows().sum(0) * 2 + _row(me)) * n + 1)[None])


def compiled_in_place() -> None:
    """The plain collectives, which torch.compile makes functional."""

    def function(x: Tensor) -> Tensor:
        y = x * 2
        dist.all_reduce(y)
        rows = torch.empty(dist.get_world_size() * 6)
        dist.all_gather_into_tensor(rows, y)
        return rows + 1

    got = torch.compile(function, backend="aot_eager", fullgraph=True)(_row())
    torch.testing.assert_close(got, (_rows().sum(0) * 2).repeat(dist.get_world_size()) + 1)


def compiled_ddp() -> None:
    model = DDP(transformer())
    train(torch.compile(model, backend="aot_eager"), share(sentences()))
    same(state(model.module), alone(sentences()))


def compiled_fsdp2() -> None:
    model = sharded()
    train(torch.compile(model, backend="aot_eager"), share(sentences()))
    same(whole(model), alone(sentences()))


def compiled_by_inductor() -> None:
    """To C++, with the collectives between its kernels."""
    torch._dynamo.reset()
    model: nn.Module = DDP(transformer(layers=1))
    train(torch.compile(model), share(sentences()))
    same(state(model.module), alone(sentences(), lambda: transformer(layers=1)))
    got = torch.compile(lambda x: funcol.all_reduce(x * 2, "sum", dist.group.WORLD).sin() + 1)(_row())
    torch.testing.assert_close(got, (_rows().sum(0) * 2).sin() + 1)
