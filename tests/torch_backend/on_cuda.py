"""What two ranks do on a GPU that they share, and what must come of it. Without pytest, for machines that have none:

python -m tests.torch_backend.on_cuda
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

from ringtree.runtime.engines.engine import DEVICE_ENGINES
from tests.torch_backend.world import World

WAYS: dict[str, dict[str, str]] = {
    "cuda": {"RINGTREE_DEVICE_ENGINE": "cuda"},
    "staged": {"RINGTREE_DEVICE_ENGINE": "nccl", "RINGTREE_NCCL_CARRIER": "staged"},
}
"""The environment of each way that devices' arrays are carried: by the cuda engine; and by the nccl engine through host
memory, since NCCL joins no two ranks on one GPU."""
RANKS = 2


def lacking(way: str) -> str:
    """The reason why this machine lacks that way; "" where it has it."""
    import torch

    if not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU"
    engine = WAYS[way]["RINGTREE_DEVICE_ENGINE"]
    return "" if engine in DEVICE_ENGINES else f"there is no engine {engine}"


def world(way: str) -> World:
    """Two ranks with a group for both kinds of memory."""
    return World(RANKS, backend="cpu:ringtree,cuda:ringtree", timeout_s=60.0, variables=WAYS[way])


def numbers(shape: tuple[int, ...], rank: int, dtype: str = "float32") -> Any:
    import torch

    return (torch.arange(torch.Size(shape).numel(), device="cuda").reshape(shape) % 7 + rank).to(getattr(torch, dtype))


def collectives(dtype: str) -> None:
    import torch
    import torch.distributed as dist

    rank, n = dist.get_rank(), dist.get_world_size()
    xs = [numbers((2 * n, 3), r, dtype) for r in range(n)]
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


def ordered() -> tuple[float, float, bool]:
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


def messages() -> list[float]:
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


def both() -> tuple[list[float], list[float], list[int]]:
    import torch
    import torch.distributed as dist

    host, device = torch.ones(3), torch.ones(3, device="cuda")
    dist.all_reduce(host)
    dist.all_reduce(device)
    dist.barrier()
    objects: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(objects, dist.get_rank())
    return host.tolist(), device.tolist(), objects


def trained(wrap: Callable[[Any], Any], examples: slice) -> list[Any]:
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


def train(how: str) -> float:
    """The largest difference of a parameter from those of one process that has all the examples."""
    import torch.distributed as dist

    rank = dist.get_rank()
    found = trained({"ddp": ddp, "fsdp2": fsdp2}[how], slice(8 * rank, 8 * rank + 8))
    alone = trained(lambda model: model, slice(None))
    return max(float((a - b).abs().max()) for a, b in zip(found, alone, strict=True))


def ddp(model: Any) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, device_ids=[0])


def fsdp2(model: Any) -> Any:
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(dist.group.WORLD, "cuda")
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def check_collectives(ranks: World, dtype: str) -> None:
    ranks.run(collectives, dtype)


def check_order(ranks: World) -> None:
    for total, after, completed in ranks.run(ordered):
        assert abs(total - 3) < 1e-2, total
        assert abs(after - 13) < 1e-1, after  # twice the total of each of two ranks, and one
        assert completed


def check_messages(ranks: World) -> None:
    assert ranks.run(messages) == [[3.0] * 5] * 2


def check_both(ranks: World) -> None:
    assert ranks.run(both) == [([2.0] * 3, [2.0] * 3, [0, 1])] * 2


def check_training(ranks: World, how: str) -> None:
    assert max(ranks.run(train, how)) < 1e-5


CHECKS: dict[str, Callable[[World], None]] = {
    "collectives of float32": lambda ranks: check_collectives(ranks, "float32"),
    "collectives of bfloat16": lambda ranks: check_collectives(ranks, "bfloat16"),
    "collectives of int64": lambda ranks: check_collectives(ranks, "int64"),
    "calls are made in the order of streams": check_order,
    "messages": check_messages,
    "one group serves both kinds of memory": check_both,
    "DDP trains as one process with all examples": lambda ranks: check_training(ranks, "ddp"),
    "FSDP2 trains as one process with all examples": lambda ranks: check_training(ranks, "fsdp2"),
}


def main() -> int:
    """Makes all checks and prints a line for each; the number that failed."""
    failed = 0
    for way in WAYS:
        if why := lacking(way):
            print(f"skipped {way}: {why}")
            continue
        ranks = world(way)
        for name, check in CHECKS.items():
            if not ranks.alive:
                ranks = world(way)
            try:
                check(ranks)
            except Exception:  # noqa: BLE001  # printed, and the next one is made
                failed += 1
                print(f"FAILED {way}: {name}\n{traceback.format_exc()}", flush=True)
            else:
                print(f"passed {way}: {name}", flush=True)
        ranks.close()
    return failed


if __name__ == "__main__":
    sys.exit(main())
