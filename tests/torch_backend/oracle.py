"""Results of collectives, in plain torch; for the ranks of a world. Values are small enough to be exact in all
types."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist

UNKNOWN = tuple(
    getattr(torch, name)
    for name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32")
    if hasattr(torch, name)
)
"""The types of this torch that the engine does not know, and can only move."""

REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": operator.add,
    "prod": operator.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "avg": operator.add,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}
OPS = {name: getattr(dist.ReduceOp, {"prod": "PRODUCT"}.get(name, name.upper())) for name in REDUCTIONS}


def values(rank: int, shape: Sequence[int], dtype: Any) -> Any:
    """The input of `rank`: 1 or 2 (True or False), in a pattern that all ranks know."""
    count = torch.Size(shape).numel()
    pattern = (torch.arange(count) * (2 * rank + 1) + rank) % 3 % 2
    numbers = pattern if dtype is torch.bool else pattern + 1
    wide = numbers.to(torch.float32) if dtype.is_floating_point or dtype.is_complex else numbers
    return wide.to(dtype).reshape(tuple(shape))


def reduction(op: str, xs: Sequence[Any]) -> Any:
    """All of `xs` joined by `op`, rounded at the end by the rule in docs/types.md."""
    dtype = xs[0].dtype
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    result = reduce(REDUCTIONS[op], [x.to(wide) for x in xs])
    if op == "avg":
        n = len(xs)
        result = torch.div(result, n, rounding_mode="trunc") if wide is torch.int64 else result / n
    return (result.float() if dtype.itemsize == 1 and dtype.is_floating_point else result).to(dtype)


def laid(x: Any, contiguous: bool) -> Any:
    """The same values in memory of their own, with gaps unless `contiguous`."""
    if contiguous:
        return x.clone()
    gaps = torch.zeros((*x.shape, 2), dtype=x.dtype)
    gaps[..., 0].copy_(x)
    return gaps[..., 0]


def same(found: Any, expected: Any) -> bool:
    """Whether they are equal bit by bit."""
    shaped = found.shape == expected.shape and found.dtype is expected.dtype

    def bits(x: Any) -> Any:
        return x.contiguous().reshape(-1).view(torch.uint8)

    return shaped and torch.equal(bits(found), bits(expected))
