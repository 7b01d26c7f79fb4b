"""all_reduce of sparse tensors."""

from __future__ import annotations

import pytest

from tests.torch_backend.conftest import Worlds


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_sums(worlds: Worlds, n: int, async_op: bool) -> None:
    worlds(n).run(_summed, async_op)


def _summed(async_op: bool) -> None:
    """Several at once, with others between them; ranks have different numbers of elements, and some twice."""
    import torch
    import torch.distributed as dist

    n, rank = dist.get_world_size(), dist.get_rank()
    for shape, dtype in (((7,), torch.float32), ((7, 3), torch.bfloat16), ((7, 2, 2), torch.int64)):

        def given(r: int, shape: tuple[int, ...] = shape, dtype: torch.dtype = dtype) -> torch.Tensor:
            values = torch.ones((2 * r, *shape[1:]), dtype=dtype)
            return torch.sparse_coo_tensor(torch.arange(2 * r).reshape(1, -1) // 2 + r, values, shape)

        xs = [given(rank), given(n - 1 - rank)]
        between = torch.ones(3)
        works = [dist.all_reduce(x, async_op=async_op) for x in (*xs, between)]
        if async_op:
            assert [work.wait() for work in works] == [True] * 3
            assert works[0].result()[0] is xs[0]
        expected = sum(given(r).to_dense() for r in range(n))
        assert all(torch.equal(x.to_dense(), expected) for x in xs)
        assert all(x.is_sparse and x.is_coalesced() for x in xs)
        assert between.tolist() == [n] * 3


def test_refusals(worlds: Worlds) -> None:
    worlds(2).run(_refused)


def _refused() -> None:
    import torch
    import torch.distributed as dist

    x = torch.eye(2).to_sparse()
    with pytest.raises(TypeError, match=r"sparse_coo tensor on cpu by max: expected a sum"):
        dist.all_reduce(x, dist.ReduceOp.MAX)
    with pytest.raises(TypeError, match="of a sparse_csr tensor"):
        dist.all_reduce(torch.eye(2).to_sparse_csr())


def test_embedding(worlds: Worlds) -> None:
    worlds(2).run(_embedded)


def _embedded() -> None:
    """DDP with sparse gradients, equal to one process."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    rank = torch.distributed.get_rank()
    model = torch.nn.Sequential(torch.nn.Embedding(9, 3, sparse=True), torch.nn.Linear(3, 2))
    alone = torch.nn.Sequential(torch.nn.Embedding(9, 3, sparse=True), torch.nn.Linear(3, 2))
    alone.load_state_dict(model.state_dict())
    batch = torch.tensor([[1, 2, 2], [2, 5, 8]])
    parallel = DistributedDataParallel(model)
    parallel(batch[rank : rank + 1]).sum().backward()
    (alone(batch).sum() / 2).backward()
    for mine, other in zip(model.parameters(), alone.parameters(), strict=True):
        assert mine.grad is not None and other.grad is not None
        assert torch.allclose(mine.grad.to_dense(), other.grad.to_dense())
