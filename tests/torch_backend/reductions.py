"""The collectives that reduce, a case each, on a rank of a world: raises where a result is not the oracle's."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from tests.torch_backend.moves import Shape, ended
from tests.torch_backend.oracle import OPS, laid, reduction, same, values


def all_reduce(op: str, dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    if dtype.is_complex and op != "sum":
        return  # torch refuses it
    x = laid(values(dist.get_rank(), shape, dtype), contiguous)
    ended(dist.all_reduce(x, OPS[op], async_op=async_op), async_op)
    expected = reduction(op, _all(shape, dtype))
    assert same(x, expected), (op, dtype, x, expected)


def reduce(op: str, dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    if dtype.is_complex and op != "sum":
        return
    root = dist.get_world_size() - 1
    x = laid(values(dist.get_rank(), shape, dtype), contiguous)
    ended(dist.reduce(x, root, OPS[op], async_op=async_op), async_op)
    expected = reduction(op, _all(shape, dtype)) if dist.get_rank() == root else values(dist.get_rank(), shape, dtype)
    assert same(x, expected), (op, dtype, x, expected)


def reduce_scatter(op: str, dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    reduce_scatter_of([shape] * dist.get_world_size(), op, dtype, async_op, contiguous)


def reduce_scatter_uneven(op: str, dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    reduce_scatter_of([(r % 3, *shape) for r in range(dist.get_world_size())], op, dtype, async_op, contiguous)


def reduce_scatter_of(shapes: list[Shape], op: str, dtype: Any, async_op: bool, contiguous: bool) -> None:
    rank = dist.get_rank()
    xs = [laid(values(rank + r, shape, dtype), contiguous) for r, shape in enumerate(shapes)]
    out = laid(torch.zeros(shapes[rank], dtype=dtype), contiguous)
    ended(dist.reduce_scatter(out, xs, OPS[op], async_op=async_op), async_op)
    expected = reduction(op, [values(r + rank, shapes[rank], dtype) for r in range(len(shapes))])
    assert same(out, expected), (op, dtype, out, expected)


def reduce_scatter_single(op: str, dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    for form in ((n, *shape), (n * shape[0], *shape[1:])):  # stacked, joined
        x = laid(values(rank, form, dtype), contiguous)
        out = laid(torch.zeros(shape, dtype=dtype), contiguous)
        ended(dist.reduce_scatter_tensor(out, x, OPS[op], async_op=async_op), async_op)
        whole = reduction(op, _all(form, dtype)).reshape(n, *shape)
        assert same(out, whole[rank]), (op, dtype, out, whole)


def _all(shape: Shape, dtype: Any) -> list[Any]:
    return [values(r, shape, dtype) for r in range(dist.get_world_size())]
