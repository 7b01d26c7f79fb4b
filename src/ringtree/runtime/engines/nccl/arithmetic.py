"""Reductions of chunks by torch, on whatever device they are: the arithmetic of ringtree.runtime.types.

torch computes float16 and bfloat16 in float32 and rounds once; it has no arithmetic for unsigned integers of several
bytes, whose bits are computed with as signed ones, nor for float8, which is widened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ringtree.runtime.types import COMPLEX, INTEGERS, LOGICAL, OPS, PAIRS, SHORT_FLOATS, Dtype

Step = Callable[..., Any]
_NAME = {code: name for name, code in OPS.items()}
_WIDE_UNSIGNED = {Dtype.UINT16: torch.int16, Dtype.UINT32: torch.int32, Dtype.UINT64: torch.int64}
_FLOAT8 = {Dtype.FLOAT8_E4M3FN: "float8_e4m3fn", Dtype.FLOAT8_E5M2: "float8_e5m2"}
_STEPS: dict[str, Step] = {
    "sum": torch.add,
    "avg": torch.add,
    "prod": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
    "land": torch.logical_and,
    "lor": torch.logical_or,
    "lxor": torch.logical_xor,
}
_OF_BOOL = (
    _STEPS | {"sum": torch.logical_or, "max": torch.logical_or, "prod": torch.logical_and} | {"min": torch.logical_and}
)


def stored(dtype: Dtype) -> torch.dtype:
    """torch's type for elements in memory: signed integers for unsigned ones of several bytes; for pairs, which are
    only moved, one of their size."""
    if dtype in PAIRS:
        return torch.int64 if dtype.itemsize == 8 else torch.complex128
    found: torch.dtype = _WIDE_UNSIGNED.get(dtype) or getattr(torch, dtype.label)
    return found


class Arithmetic:
    """A reduction of elements of a type. TypeError for pairs, which torch has no arithmetic for."""

    def __init__(self, dtype: Dtype, op: int) -> None:
        self.name, self.dtype = _NAME[op], dtype
        if dtype in PAIRS:
            raise TypeError(f"{self.name} of {dtype.label} is not supported on devices; expected arrays on the host")
        self._step = (_OF_BOOL if dtype is Dtype.BOOL else _STEPS)[self.name]
        self._short = dtype in SHORT_FLOATS
        self._flips = dtype in _WIDE_UNSIGNED and self.name in ("max", "min")

    def reduce(self, sources: Sequence[Any], out: Any) -> None:
        """Writes the reduction of the sources, in their order, to `out`, which may be the first of them."""
        plain = self.name not in LOGICAL or self.dtype is Dtype.BOOL
        narrow = self._short and (len(sources) > 2 or self.dtype in _FLOAT8)
        if plain and not narrow and not self._flips:
            total = self._step(sources[0], sources[1], out=out)
            for source in sources[2:]:
                self._step(total, source, out=total)
            return
        total = self._widened(sources[0])
        for source in sources[1:]:
            total = self._step(total, self._widened(source))
        out.copy_(self._flipped(total))

    def finish(self, out: Any, ranks: int) -> None:
        """Finishes a reduction in place: an average is divided, and integers truncated toward zero; values that a
        logical operation left as they came, because nothing was joined with them, become 0 or 1."""
        if self.name in LOGICAL:
            out.copy_(self._widened(out) != 0)
        elif self.name != "avg":
            return
        elif self.dtype in INTEGERS:
            out.copy_(_divided(out, self.dtype, ranks))
        elif self._short:
            out.copy_(out.float() / ranks)
        elif self.dtype in COMPLEX:
            torch.view_as_real(out).div_(ranks)
        else:
            out.div_(ranks)

    def _widened(self, x: Any) -> Any:
        return self._flipped(x.float() if self._short else x)

    def _flipped(self, x: Any) -> Any:
        """Unsigned integers in the order of signed ones, and back."""
        return x ^ torch.iinfo(x.dtype).min if self._flips else x


def _divided(x: Any, dtype: Dtype, ranks: int) -> Any:
    if dtype is Dtype.UINT64:  # no type is wider: halved, divided, doubled, and corrected by the rest
        quotient = torch.div((x >> 1) & torch.iinfo(torch.int64).max, ranks, rounding_mode="trunc") << 1
        return quotient + (x - quotient * ranks >= ranks)
    whole = x.to(torch.int64)
    if dtype in _WIDE_UNSIGNED:
        whole = whole & ((1 << 8 * dtype.itemsize) - 1)
    return torch.div(whole, ranks, rounding_mode="trunc")
