"""CUDA tensors through the backend, by two processes that share a GPU. Each way that devices' arrays are carried is
tested: by the cuda engine, and by the nccl engine through host memory, since NCCL joins no two ranks on one GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.torch_backend.world import World

WAYS = {
    "cuda": {},
    "staged": {"RINGTREE_DEVICE_ENGINE": "nccl", "RINGTREE_NCCL_CARRIER": "staged"},
}
RANKS = 2


@pytest.fixture(scope="module", params=list(WAYS))
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    import torch

    from ringtree.runtime.engines.engine import DEVICE_ENGINES

    if not torch.cuda.is_available():
        pytest.skip(f"torch {torch.__version__} sees no GPU")
    if request.param not in DEVICE_ENGINES and not WAYS[request.param]:
        pytest.skip(f"no engine {request.param}")
    made = World(RANKS, backend="cpu:ringtree,cuda:ringtree", timeout_s=60.0, variables=WAYS[request.param])
    yield made
    made.close()


def _mine(shape: tuple[int, ...], rank: int, dtype: str = "float32") -> Any:
    import torch

    return (torch.arange(torch.Size(shape).numel(), device="cuda").reshape(shape) % 7 + rank).to(getattr(torch, dtype))


def _collectives(dtype: str) -> None:
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    xs = [_mine((2 * n, 3), r, dtype) for r in range(n)]
    total, mine = sum(xs[1:], xs[0]), xs[rank].clone()

    def same(found: Any, expected: Any) -> None:
        assert found.is_cuda
        assert torch.equal(found, expected), f"{found} is not {expected}"

    for async_op in (False, True):
        x = mine.clone()
        done(dist.all_reduce(x, async_op=async_op))
        same(x, total)
        x = mine.clone()
        done(dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=async_op))
        same(x, torch.stack(xs).amax(0))
        x = mine.clone()
        done(dist.broadcast(x, 1, async_op=async_op))
        same(x, xs[1])
        x = mine.clone()
        done(dist.reduce(x, 1, async_op=async_op))
        same(x, total if rank == 1 else mine)
        out = torch.empty(n * 2 * n, 3, device="cuda", dtype=mine.dtype)
        done(dist.all_gather_into_tensor(out, mine, async_op=async_op))
        same(out, torch.cat(xs))
        out = torch.empty(2, 3, device="cuda", dtype=mine.dtype)
        done(dist.reduce_scatter_tensor(out, mine, async_op=async_op))
        same(out, total[2 * rank : 2 * rank + 2])
        out = torch.empty_like(mine)
        done(dist.all_to_all_single(out, mine, async_op=async_op))
        same(out, torch.cat([x[2 * rank : 2 * rank + 2] for x in xs]))
        outs = [torch.empty_like(mine) for _ in range(n)]
        done(dist.all_gather(outs, mine, async_op=async_op))
        same(torch.stack(outs), torch.stack(xs))
        done(dist.gather(mine, outs if rank == 0 else None, 0, async_op=async_op))
        done(dist.scatter(out, [x.clone() for x in xs] if rank == 0 else None, 0, async_op=async_op))
        same(out, xs[rank])
        parts = [torch.empty(2, 3, device="cuda", dtype=mine.dtype) for _ in range(n)]
        done(dist.all_to_all(parts, list(mine.chunk(n)), async_op=async_op))
        same(torch.cat(parts), torch.cat([x[2 * rank : 2 * rank + 2] for x in xs]))
        strided = mine.t().clone().t()  # not contiguous
        done(dist.all_reduce(strided, async_op=async_op))
        same(strided, total)


def done(work: Any) -> None:
    """Waits for what an asynchronous call returned."""
    if work is not None:
        assert work.wait()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_collectives_of_cuda_tensors(world: World, dtype: str) -> None:
    world.run(_collectives, dtype)


def _ordered() -> tuple[float, float, bool]:
    import torch
    import torch.distributed as dist

    a = torch.ones(2048, 2048, device="cuda") / 2048
    x = torch.full((2048, 2048), float(dist.get_rank() + 1), device="cuda")
    for _ in range(20):  # long enough for a call that does not wait to see the wrong values
        x = x @ a
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    y = x * 2
    future = dist.all_reduce(y, async_op=True).get_future()
    z = future.then(lambda f: f.value()[0] + 1).wait()
    torch.cuda.synchronize()
    return float(x.mean()), float(z.mean()), work.is_completed()


def test_calls_are_made_in_the_order_of_streams(world: World) -> None:
    for total, after, completed in world.run(_ordered):
        assert abs(total - 3) < 1e-2
        assert abs(after - 13) < 1e-1  # twice the total of each of two ranks, and one
        assert completed


def _messages() -> list[float]:
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    x, y = torch.full((5,), rank + 1.0, device="cuda"), torch.zeros(5, device="cuda")
    if rank == 0:
        dist.send(x, 1)
        dist.recv(y, 1)
    else:
        dist.recv(y, 0)
        dist.send(x, 0)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, y, 1 - rank), dist.P2POp(dist.irecv, x, 1 - rank)]):
        work.wait()
    found: list[float] = (x + y).tolist()
    return found


def test_messages_of_cuda_tensors(world: World) -> None:
    assert world.run(_messages) == [[3.0] * 5] * 2


def _both() -> tuple[list[float], list[float], list[int]]:
    import torch
    import torch.distributed as dist

    host, device = torch.ones(3), torch.ones(3, device="cuda")
    dist.all_reduce(host)
    dist.all_reduce(device)
    dist.barrier()
    objects: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(objects, dist.get_rank())
    return host.tolist(), device.tolist(), objects


def test_one_group_serves_both_kinds_of_memory(world: World) -> None:
    assert world.run(_both) == [([2.0] * 3, [2.0] * 3, [0, 1])] * 2


def _trained(wrap: Callable[[Any], Any], examples: slice) -> list[Any]:
    """The parameters after three steps on these examples of each step's."""
    import torch

    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16)]
    model = wrap(torch.nn.Sequential(*layers).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    random = torch.Generator().manual_seed(1)
    for _ in range(3):
        loss = model(torch.randn(8 * RANKS, 16, generator=random)[examples].cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return [p.detach().cpu() for p in whole]


def _train(how: str) -> float:
    """The largest difference of a parameter from those of one process that has all the examples."""
    import torch.distributed as dist

    rank = dist.get_rank()
    found = _trained({"ddp": _ddp, "fsdp2": _fsdp2}[how], slice(8 * rank, 8 * rank + 8))
    alone = _trained(lambda model: model, slice(None))
    return max(float((a - b).abs().max()) for a, b in zip(found, alone, strict=True))


def _ddp(model: Any) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, device_ids=[0])


def _fsdp2(model: Any) -> Any:
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(dist.group.WORLD, "cuda")
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@pytest.mark.parametrize("how", ["ddp", "fsdp2"])
def test_training_equals_that_of_one_process_with_all_examples(world: World, how: str) -> None:
    assert max(world.run(_train, how)) < 1e-5
