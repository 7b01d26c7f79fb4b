"""torch's functions on a group's collectives: functional ones, those with gradients, those of objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds

CASES = ("functional", "functional_gradients", "functional_uneven", "gradients", "objects", "complexes", "compiled")


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_functional(worlds: Worlds, case: str, n: int) -> None:
    worlds(n).run(_run, case)


def _run(case: str) -> None:
    import torch.distributed as dist

    globals()[f"_{case}"](dist.group.WORLD, dist.get_rank(), dist.get_world_size())


def _functional(group: Any, rank: int, n: int) -> None:
    import torch
    from torch.distributed import _functional_collectives as functional

    from tests.torch_backend.oracle import reduction, values

    every = [values(r, (n, 2), torch.float32) for r in range(n)]
    x = every[rank]
    for op in ("sum", "avg", "max", "min", "product"):
        expected = reduction({"product": "prod"}.get(op, op), every)
        assert torch.equal(functional.all_reduce(x, op, group), expected), op
        assert torch.equal(functional.reduce_scatter_tensor(x, op, 0, group), expected[rank : rank + 1]), op
    assert torch.equal(functional.all_gather_tensor(x, 0, group), torch.cat(every))
    assert torch.equal(functional.all_gather_tensor(x, 1, group), torch.cat(every, 1))
    assert torch.equal(functional.broadcast(x, n - 1, group), every[-1])
    assert torch.equal(x, every[rank])
    first, second = functional.all_reduce_coalesced([x, 2 * x], "sum", group)
    assert torch.equal(second, 2 * first)
    gathered = functional.all_gather_into_tensor_coalesced([x, x[0]], group)
    assert torch.equal(gathered[0], torch.cat(every)) and gathered[1].numel() == 2 * n
    parts = functional.reduce_scatter_tensor_coalesced([x, 3 * x], "sum", [0, 0], group)
    assert torch.equal(parts[1], 3 * parts[0]) and torch.equal(parts[0][0], reduction("sum", every)[rank])
    exchanged = functional.all_to_all_single(x, None, None, group)
    assert torch.equal(exchanged, torch.stack([other[rank] for other in every]))


def _functional_uneven(group: Any, rank: int, n: int) -> None:
    import torch
    from torch.distributed import _functional_collectives as functional

    given, gotten = [r + rank for r in range(n)], [r + rank for r in range(n)]
    x = torch.full((sum(given), 2), float(rank), requires_grad=True)
    out = functional.all_to_all_single_autograd(x, gotten, given, group)
    assert out[:, 0].tolist() == [r for r in range(n) for _ in range(r + rank)]
    (out * 3).sum().backward()
    assert x.grad is not None and x.grad.eq(3).all()


def _functional_gradients(group: Any, rank: int, n: int) -> None:
    import torch
    from torch.distributed import _functional_collectives as functional

    x = torch.ones(n, 2, requires_grad=True)
    (functional.all_gather_tensor_autograd(x, 0, group) * (rank + 1)).sum().backward()
    assert x.grad is not None and x.grad.eq(n * (n + 1) / 2).all()
    x.grad = None
    (functional.reduce_scatter_tensor_autograd(x, "sum", 0, group) * (rank + 1)).sum().backward()
    assert x.grad is not None and x.grad[:, 0].tolist() == [r + 1 for r in range(n)]


def _gradients(group: Any, rank: int, n: int) -> None:
    import torch
    import torch.distributed.nn.functional as functional

    def gradient(call: Any, weigh: Any = lambda out: out.sum()) -> Any:
        x = torch.full((2,), rank + 1.0, requires_grad=True)
        weigh(call(x)).backward()
        return x.grad.tolist()

    def every(outs: Any) -> Any:
        return sum(out.sum() for out in outs)

    assert gradient(functional.all_reduce) == [n, n]
    assert gradient(lambda x: functional.broadcast(x, 0)) == ([n, n] if rank == 0 else [0, 0])
    assert gradient(lambda x: functional.reduce(x, 0)) == [1, 1]
    assert gradient(functional.all_gather, every) == [n, n]
    assert gradient(lambda x: functional.gather(x, 0), every) == [1, 1]
    assert gradient(lambda x: functional.scatter([x] * n, 0)) == ([n, n] if rank == 0 else [0, 0])
    assert gradient(lambda x: functional.reduce_scatter(torch.zeros(2), [x] * n)) == [n, n]
    assert gradient(lambda x: functional.all_to_all(list(torch.zeros(n, 2)), [x] * n), every) == [n, n]
    assert gradient(lambda x: functional.all_to_all_single(torch.zeros(2 * n), torch.cat([x] * n))) == [n, n]


def _objects(group: Any, rank: int, n: int) -> None:
    import torch.distributed as dist

    mine: Any = {"rank": rank, "text": "x" * 1000 * rank}
    outs = [None] * n
    dist.all_gather_object(outs, mine)
    assert [len(out["text"]) for out in outs] == [1000 * r for r in range(n)]  # type: ignore[index]
    gathered = [None] * n if rank == n - 1 else None
    dist.gather_object(mine, gathered, n - 1)
    assert gathered is None or [out["rank"] for out in gathered] == list(range(n))  # type: ignore[index]
    shared = [mine, None] if rank == 0 else [None, 3]
    dist.broadcast_object_list(shared, 0)
    assert shared == [{"rank": 0, "text": ""}, None]
    own: list[Any] = [None]
    dist.scatter_object_list(own, [("to", r) for r in range(n)] if rank == 0 else None, 0)
    assert own == [("to", rank)]
    if n > 1:
        if rank == 0:
            dist.send_object_list([mine], 1)
        elif rank == 1:
            dist.recv_object_list(own, 0)
            assert own[0]["rank"] == 0


def _complexes(group: Any, rank: int, n: int) -> None:
    import torch
    import torch.distributed as dist

    x = torch.full((n, 2), rank + 1j)
    total = torch.full((n, 2), n * (n - 1) / 2 + n * 1j)
    summed = x.clone()
    dist.all_reduce(summed)
    assert torch.equal(summed, total)
    gathered = [torch.zeros_like(x) for _ in range(n)]
    dist.all_gather(gathered, x)
    assert [out[0, 0] for out in gathered] == [r + 1j for r in range(n)]
    out = torch.zeros(2, dtype=torch.complex64)
    dist.reduce_scatter_tensor(out, x)
    assert torch.equal(out, total[0])
    dist.all_to_all_single(out := torch.zeros_like(x), x)
    assert out[:, 0].tolist() == [r + 1j for r in range(n)]
    with pytest.raises(ValueError, match="complex"):
        dist.all_reduce(x, dist.ReduceOp.MAX)


def _compiled(group: Any, rank: int, n: int) -> None:
    import torch
    from torch.distributed import _functional_collectives as functional

    def step(x: Any) -> Any:
        return functional.all_gather_tensor(functional.all_reduce(x, "sum", group) + 1, 0, group)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(torch.ones(2)), torch.full((2 * n,), n + 1.0))
