"""The collectives that move elements, a case each, on a rank of a world: raises where a result is not the oracle's."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from tests.torch_backend.oracle import laid, same, values

Shape = tuple[int, ...]


def broadcast(dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    root = dist.get_world_size() - 1
    x = laid(values(dist.get_rank(), shape, dtype), contiguous)
    ended(dist.broadcast(x, root, async_op=async_op), async_op)
    assert same(x, values(root, shape, dtype)), (dtype, x)


def all_gather(dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    all_gather_of([shape] * dist.get_world_size(), dtype, async_op, contiguous)
    n = dist.get_world_size()
    whole = torch.zeros((n, *shape), dtype=dtype)  # lists that lie in one tensor
    x = laid(values(dist.get_rank(), shape, dtype), contiguous)
    ended(dist.all_gather(list(whole), x, async_op=async_op), async_op)
    assert all(same(whole[r], values(r, shape, dtype)) for r in range(n)), (dtype, whole)


def all_gather_uneven(dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    all_gather_of([(r % 3, *shape) for r in range(dist.get_world_size())], dtype, async_op, contiguous)


def all_gather_of(shapes: list[Shape], dtype: Any, async_op: bool, contiguous: bool) -> None:
    rank = dist.get_rank()
    outs = [laid(torch.zeros(shape, dtype=dtype), contiguous) for shape in shapes]
    ended(dist.all_gather(outs, laid(values(rank, shapes[rank], dtype), contiguous), async_op=async_op), async_op)
    assert all(same(out, values(r, shapes[r], dtype)) for r, out in enumerate(outs)), (dtype, outs)


def all_gather_single(dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    n = dist.get_world_size()
    x = laid(values(dist.get_rank(), shape, dtype), contiguous)
    for form in ((n, *shape), (n * shape[0], *shape[1:])):  # stacked, joined
        out = laid(torch.zeros(form, dtype=dtype), contiguous)
        ended(dist.all_gather_into_tensor(out, x, async_op=async_op), async_op)
        assert all(same(row, values(r, shape, dtype)) for r, row in enumerate(out.reshape(n, *shape))), (dtype, out)


def gather(dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    root = n - 1
    outs = [laid(torch.zeros(shape, dtype=dtype), contiguous) for _ in range(n)] if rank == root else None
    x = laid(values(rank, shape, dtype), contiguous)
    ended(dist.gather(x, outs, root, async_op=async_op), async_op)
    assert all(same(out, values(r, shape, dtype)) for r, out in enumerate(outs or ())), (dtype, outs)


def scatter(dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    root = n - 1
    xs = [laid(values(r, shape, dtype), contiguous) for r in range(n)] if rank == root else None
    out = laid(torch.zeros(shape, dtype=dtype), contiguous)
    ended(dist.scatter(out, xs, root, async_op=async_op), async_op)
    assert same(out, values(rank, shape, dtype)), (dtype, out)


def all_to_all(dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    all_to_all_of(_differing(), shape, dtype, async_op, contiguous)


def all_to_all_of(rows: list[list[int]], width: Shape, dtype: Any, async_op: bool, contiguous: bool) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()

    def between(source: int, target: int) -> Any:
        return values(n * source + target, (rows[source][target], *width), dtype)

    xs = [laid(between(rank, r), contiguous) for r in range(n)]
    outs = [laid(torch.zeros_like(between(r, rank)), contiguous) for r in range(n)]
    ended(dist.all_to_all(outs, xs, async_op=async_op), async_op)
    assert all(same(out, between(r, rank)) for r, out in enumerate(outs)), (dtype, outs)


def all_to_all_single(dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    n = dist.get_world_size()
    all_to_all_single_of([[shape[0]] * n] * n, shape[1:], dtype, async_op, contiguous, with_splits=False)


def all_to_all_single_uneven(dtype: Any, shape: Shape, async_op: bool, contiguous: bool) -> None:
    all_to_all_single_of(_differing(), shape[1:], dtype, async_op, contiguous)


def _differing() -> list[list[int]]:
    """How many rows go from each rank to each."""
    ranks = range(dist.get_world_size())
    return [[(source + 2 * target) % 3 for target in ranks] for source in ranks]


def all_to_all_single_of(
    rows: list[list[int]], width: Shape, dtype: Any, async_op: bool, contiguous: bool, with_splits: bool = True
) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()

    def between(source: int, target: int) -> Any:
        return values(n * source + target, (rows[source][target], *width), dtype)

    given, gotten = rows[rank], [row[rank] for row in rows]
    x = torch.zeros((sum(given), *width), dtype=dtype)
    for r, piece in enumerate(x.split(given)):
        piece.copy_(between(rank, r))
    out = laid(torch.zeros((sum(gotten), *width), dtype=dtype), contiguous)
    splits = (gotten, given) if with_splits else (None, None)
    ended(dist.all_to_all_single(out, laid(x, contiguous), *splits, async_op=async_op), async_op)
    assert all(same(piece, between(r, rank)) for r, piece in enumerate(out.split(gotten))), (dtype, out)


def ended(work: Any, async_op: bool) -> None:
    """Waits for asynchronous work; synchronous calls returned None."""
    assert (work is not None) == async_op
    if async_op:
        work.wait()
