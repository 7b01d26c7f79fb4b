"""A group's methods as C++ and older programs call them: by every form of arguments that torch's own class takes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds

FORMS = (
    "allreduce",
    "broadcast",
    "reduce",
    "allgather",
    "gather",
    "scatter",
    "reduce_scatter",
    "single",
    "all_to_all_single",
    "barrier",
)


@pytest.mark.parametrize("form", FORMS)
def test_forms(worlds: Worlds, form: str) -> None:
    worlds(2).run(_called, form)


def _called(form: str) -> None:
    import torch.distributed as dist

    globals()[f"_{form}"](dist.group.WORLD, dist.get_rank())


def _allreduce(group: Any, rank: int) -> None:
    import torch
    import torch.distributed as dist

    for given, named in (((), {}), ((dist.ReduceOp.SUM,), {}), ((), {"op": dist.ReduceOp.SUM, "timeout": None})):
        for x in (torch.ones(2), [torch.ones(2)]):
            [out] = group.allreduce(x, *given, **named).result()
            assert out.tolist() == [2, 2] and out is (x if isinstance(x, torch.Tensor) else x[0])
    assert group.allreduce(tensor=torch.full((1,), 2.0), op=dist.ReduceOp.MAX).result()[0].item() == 2
    assert [x.tolist() for x in group.allreduce_coalesced([torch.ones(1), torch.ones(2)]).result()] == [[2], [2, 2]]
    with pytest.raises(TypeError, match="allreduce has no argument roots"):
        group.allreduce(torch.ones(2), roots=1)
    with pytest.raises(TypeError, match="allreduce was called without tensors"):
        group.allreduce()
    with pytest.raises(ValueError, match="got 2 tensors; expected one"):
        group.allreduce([torch.ones(2), torch.ones(2)])


def _broadcast(group: Any, rank: int) -> None:
    import torch

    for given, named in (((1,), {}), ((1, timedelta(seconds=9)), {}), ((), {"root": 1})):
        x = torch.full((2,), float(rank))
        group.broadcast(x, *given, **named).wait()
        assert x.tolist() == [1, 1]
    with pytest.raises(ValueError, match="invalid root rank: 2; expected one of this group"):
        group.broadcast(torch.ones(2), 2)


def _reduce(group: Any, rank: int) -> None:
    import torch
    import torch.distributed as dist

    x = torch.ones(2)
    group.reduce(x, 1, dist.ReduceOp.SUM).wait()
    assert x.tolist() == [1 + rank] * 2
    group.reduce(tensor=x, root=0).wait()
    assert x.tolist() == [3 - rank] * 2


def _allgather(group: Any, rank: int) -> None:
    import torch

    x = torch.full((2,), float(rank))
    for nested in (False, True):
        outs = [torch.zeros(2), torch.zeros(2)]
        group.allgather(*(([outs], [x]) if nested else (outs, x))).wait()
        assert [out.tolist() for out in outs] == [[0, 0], [1, 1]]
    with pytest.raises(ValueError, match="outputs are a list of 1 tensors; expected a list of 2"):
        group.allgather([[x]], [x])


def _gather(group: Any, rank: int) -> None:
    import torch

    outs = [torch.zeros(1), torch.zeros(1)] if rank == 1 else []
    group.gather(outs, torch.full((1,), float(rank)), 1).wait()
    assert [out.item() for out in outs] == ([0, 1] if rank == 1 else [])


def _scatter(group: Any, rank: int) -> None:
    import torch

    out = torch.zeros(1)
    group.scatter(out, [torch.zeros(1), torch.ones(1)] if rank == 0 else [], 0).wait()
    assert out.item() == rank


def _reduce_scatter(group: Any, rank: int) -> None:
    import torch
    import torch.distributed as dist

    out = torch.zeros(1)
    group.reduce_scatter(out, [torch.ones(1), torch.full((1,), 2.0)], dist.ReduceOp.PRODUCT).wait()
    assert out.item() == (1 + rank) ** 2


def _single(group: Any, rank: int) -> None:
    import torch

    out = torch.zeros(2)
    group._allgather_base(out, torch.full((1,), float(rank))).wait()
    assert out.tolist() == [0, 1]
    group._reduce_scatter_base(out[:1], torch.tensor([3.0, 4.0])).wait()
    assert out[0] == 6 + 2 * rank
    outs = [torch.zeros(2), torch.zeros(4)]
    group.allgather_into_tensor_coalesced(outs, [torch.ones(1), torch.ones(2)]).wait()
    assert [o.tolist() for o in outs] == [[1, 1], [1, 1, 1, 1]]
    outs = [torch.zeros(1), torch.zeros(2)]
    group.reduce_scatter_tensor_coalesced(outs, [torch.ones(2), torch.ones(4)]).wait()
    assert [o.tolist() for o in outs] == [[2], [2, 2]]


def _all_to_all_single(group: Any, rank: int) -> None:
    import torch

    out = torch.zeros(2)
    group.alltoall_base(out, torch.tensor([2.0 * rank, 2.0 * rank + 1]), [], []).wait()
    assert out.tolist() == [rank, rank + 2]
    group.alltoall([out[:1], out[1:]], [torch.ones(1), torch.ones(1)]).wait()
    assert out.tolist() == [1, 1]


def _barrier(group: Any, rank: int) -> None:
    group.barrier().wait()
    group.barrier(timeout=timedelta(seconds=9)).wait()
    group.barrier(timedelta(seconds=9)).wait()
