"""Calls on several tensors at once, and what may alias what."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_coalesced(worlds: Worlds, n: int, async_op: bool) -> None:
    worlds(n).run(_coalesced, async_op)


def _coalesced(async_op: bool) -> None:
    import torch
    import torch.distributed as dist

    from tests.torch_backend.oracle import laid, values

    n, rank, group = dist.get_world_size(), dist.get_rank(), dist.group.WORLD
    shapes = [(2, 3), (5,), (0,), (), (3, 1)]
    types = [torch.float32, torch.int64, torch.float32, torch.bfloat16, torch.float64]
    kinds = list(zip(shapes, types, strict=True))

    xs = [laid(values(rank, *kind), i % 2 == 0) for i, kind in enumerate(kinds)]
    options = _options("AllreduceCoalescedOptions", async_op)
    _ended(group.allreduce_coalesced(xs, options), async_op)
    assert all(_sum(x, kind) for x, kind in zip(xs, kinds, strict=True))

    xs = [values(rank, *kind) for kind in kinds]
    rows = [[laid(torch.zeros_like(x), i % 2 == 0) for i, x in enumerate(xs)] for _ in range(n)]
    _ended(group.allgather_coalesced(rows, xs, _options("AllgatherOptions", async_op)), async_op)
    assert all(torch.equal(rows[r][i], values(r, *kind)) for r in range(n) for i, kind in enumerate(kinds))

    with dist._coalescing_manager(group, async_ops=async_op) as manager:
        outs = [torch.zeros((n, *x.shape), dtype=x.dtype) for x in xs]
        for out, x in zip(outs, xs, strict=True):
            dist.all_gather_into_tensor(out, x)
    if async_op:
        manager.wait()
    assert all(torch.equal(outs[i][r], values(r, *kind)) for r in range(n) for i, kind in enumerate(kinds))

    with dist._coalescing_manager(group, async_ops=async_op) as manager:
        parts = [torch.zeros_like(x) for x in xs]
        for out, x in zip(parts, outs, strict=True):
            dist.reduce_scatter_tensor(out, x)
    if async_op:
        manager.wait()
    assert all(torch.equal(part.long(), n * out[rank].long()) for part, out in zip(parts, outs, strict=True))


def _ended(work: Any, async_op: bool) -> None:
    """Waits; a call that was not asynchronous has ended, and returns no Work."""
    assert (work is not None) == async_op
    if async_op:
        work.wait()


def _sum(x: Any, kind: Any) -> bool:
    import torch.distributed as dist

    from tests.torch_backend.oracle import reduction, same, values

    return same(x, reduction("sum", [values(r, *kind) for r in range(dist.get_world_size())]))


def _options(name: str, async_op: bool) -> Any:
    from torch.distributed import distributed_c10d

    options = getattr(distributed_c10d, name)()
    if hasattr(options, "asyncOp"):  # since torch 2.7
        options.asyncOp = async_op
    return options


def test_counts_of_coalesced_tensors(worlds: Worlds) -> None:
    for messages in worlds(2).run(_counts_that_differ):
        assert all("\n" not in line for line in messages)


def _counts_that_differ() -> list[str]:
    import torch
    import torch.distributed as dist

    group: Any = dist.group.WORLD
    messages = []
    for call, outs, ins in (
        (group.all_gather_single_coalesced, [torch.zeros(2)], []),
        (group.allreduce_coalesced, [], None),
        (group.allgather_coalesced, [[torch.zeros(2)]], [torch.zeros(2)]),
    ):
        with pytest.raises(ValueError, match="expected") as refusal:
            call(*([outs] if ins is None else [outs, ins]))
        messages.append(str(refusal.value))
    return messages


@pytest.mark.parametrize("async_op", [False, True])
def test_aliases(worlds: Worlds, async_op: bool) -> None:
    worlds(3).run(_aliased, async_op)


def _aliased(async_op: bool) -> None:
    """Inputs in the memory of outputs, at their own place and at others."""
    import torch
    import torch.distributed as dist

    from tests.torch_backend.moves import ended

    n, rank = dist.get_world_size(), dist.get_rank()
    for place in (rank, 0):
        flat = torch.zeros(n, 4)
        flat[place] = rank + 1
        ended(dist.all_gather_into_tensor(flat, flat[place], async_op=async_op), async_op)
        assert flat[:, 0].tolist() == [1, 2, 3]
        flat = torch.zeros(n, 4)
        flat[place] = rank + 1
        ended(dist.all_gather(list(flat), flat[place], async_op=async_op), async_op)
        assert flat[:, 3].tolist() == [1, 2, 3]
        flat = torch.arange(12.0).view(n, 4)
        ended(dist.reduce_scatter_tensor(flat[place], flat, async_op=async_op), async_op)
        assert flat[place].tolist() == [3 * (4 * rank + k) for k in range(4)]
    flat = torch.arange(12.0).view(n, 4) + 100 * rank
    ended(dist.all_to_all_single(flat, flat, async_op=async_op), async_op)
    assert flat[:, 0].tolist() == [4 * rank + 100 * k for k in range(n)]
    whole = torch.arange(12.0)
    ended(dist.scatter(whole[:4], list(whole.view(n, 4)) if rank == 0 else None, async_op=async_op), async_op)
    assert whole[:4].tolist() == [4 * rank + k for k in range(4)]


@pytest.mark.parametrize("async_op", [False, True])
def test_tensors_of_other_kinds(worlds: Worlds, async_op: bool) -> None:
    worlds(2).run(_kinds, async_op)


def _kinds(async_op: bool) -> None:
    """Leaves that require gradients, conjugated and negated views, parameters, the results of functional calls."""
    import torch
    import torch.distributed as dist
    from torch.distributed import _functional_collectives as functional

    from tests.torch_backend.moves import ended

    rank = dist.get_rank()
    for leaf in (torch.ones(3, requires_grad=True), torch.nn.Parameter(torch.ones(3))):
        ended(dist.all_reduce(leaf, async_op=async_op), async_op)
        assert leaf.tolist() == [2] * 3 and leaf.requires_grad and leaf.grad_fn is None
    leaf = torch.ones(4, 3, requires_grad=True)
    gaps = leaf.detach().t().requires_grad_()
    ended(dist.all_reduce(gaps, async_op=async_op), async_op)
    assert leaf.tolist() == [[2] * 3] * 4
    ended(dist.all_gather_into_tensor(torch.empty(6), (leaf * 1)[0], async_op=async_op), async_op)

    group: Any = dist.group.WORLD
    x = torch.full((2,), 1 + 2j) if rank == 0 else torch.zeros(2, dtype=torch.complex64)
    group.broadcast([x.conj()], 0).wait()
    assert x.tolist() == [1 + 2j] * 2
    y = torch.full((2,), 1 + 1j)
    group.allreduce([y.conj()]).wait()
    assert y.tolist() == [2 + 2j] * 2
    negated = torch.full((2,), 1j).conj().imag
    assert negated.is_neg()
    ended(dist.all_reduce(negated, async_op=async_op), async_op)
    assert negated.tolist() == [-2, -2]

    repeated = torch.ones(1, 3).expand(2, 3)
    ended(dist.all_reduce(repeated, async_op=async_op), async_op)
    assert repeated.tolist() == [[2] * 3] * 2
    with torch.inference_mode():
        inferred = torch.ones(2, 3).t()
        ended(dist.all_reduce(inferred, async_op=async_op), async_op)
        assert inferred.tolist() == [[2] * 2] * 3

    pending = functional.all_reduce(torch.ones(2), "sum", group)
    ended(dist.all_reduce(pending, async_op=async_op), async_op)
    assert torch.equal(pending + 0, torch.full((2,), 4.0))


def test_tensors_that_cannot_be(worlds: Worlds) -> None:
    worlds(2).run(_refused)


def _refused() -> None:
    import torch
    import torch.distributed as dist
    import torch.distributed.tensor

    elsewhere, sparse = torch.zeros(2, device="meta"), torch.eye(2).to_sparse()
    here, me, group = torch.zeros(2), dist.get_rank(), dist.group.WORLD
    before = group._get_sequence_number_for_group()
    for call in (
        lambda: dist.broadcast(sparse, 0),
        lambda: dist.all_gather([here, elsewhere], here),
        lambda: dist.all_gather_into_tensor(torch.zeros(4), sparse),
        lambda: dist.reduce_scatter(here, [sparse, sparse]),
        lambda: dist.all_to_all_single(sparse, here),
    ):
        with pytest.raises(
            TypeError,
            match=r"^got a (strided|sparse_coo) tensor on [a-z ]*; expected a dense one on the CPU or CUDA$",
        ):
            call()
    for call in (
        lambda: dist.all_gather_into_tensor(torch.zeros(5), here),
        lambda: dist.all_gather([here, torch.zeros(3)], torch.zeros(4)),
        lambda: dist.all_gather([here], here),
        lambda: dist.reduce_scatter_tensor(here, torch.zeros(5)),
        lambda: dist.reduce_scatter_tensor(here, torch.zeros(6)),
        lambda: dist.reduce_scatter(here, [here]),
        lambda: dist.reduce_scatter(here, [torch.zeros(3), torch.zeros(3)]),
        lambda: dist.all_to_all([here], [here, here]),
        lambda: dist.all_to_all_single(torch.zeros(3), torch.zeros(3)),
        lambda: dist.all_to_all_single(here, here, [1, 2], [1, 1]),
        lambda: dist.all_to_all_single(here, here, [3, -1], [1, 1]),
        lambda: dist.all_to_all_single(here, here, [2], [2]),
        lambda: dist.scatter(here, [torch.zeros(1), torch.zeros(3)], src=me),
        lambda: dist.gather(here, [torch.zeros(1), torch.zeros(3)], dst=me),
        lambda: dist.all_gather_coalesced([[torch.zeros(1)], [torch.zeros(3)]], [here]),
        lambda: group.all_gather_single_coalesced([torch.zeros(4), torch.zeros(5)], [here, here]),
        lambda: group.reduce_scatter_single_coalesced([here, here], [torch.zeros(4), torch.zeros(5)]),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
    assert group._get_sequence_number_for_group() == before
    with pytest.raises(TypeError, match="out is float64; expected float32"):
        dist.all_gather_into_tensor(torch.zeros(4, dtype=torch.float64), here)
    shown = torch.distributed.tensor.DTensor.from_local(here, dist.init_device_mesh("cpu", (2,)))
    with pytest.raises(TypeError, match=r"^got a DTensor without memory of its own; expected a plain tensor$"):
        dist.all_reduce(shown)
    dist.barrier()  # nobody is left waiting


def _of_no_elements() -> list[int]:
    """Tensors that share numpy's empty arrays, whose stride is 0."""
    import numpy as np
    import torch
    import torch.distributed as dist

    outs = [torch.from_numpy(np.zeros(0, np.float32)) for _ in range(dist.get_world_size())]
    x = torch.from_numpy(np.zeros(0, np.float32))
    dist.all_gather(outs, x)
    dist.gather(x, outs if dist.get_rank() == 0 else None, 0)
    dist.scatter(x, outs if dist.get_rank() == 0 else None, 0)
    return [out.numel() for out in outs]


def test_lists_of_empty_arrays(worlds: Worlds) -> None:
    assert worlds(2).run(_of_no_elements) == [[0, 0]] * 2
