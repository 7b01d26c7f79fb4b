"""The reference engine's arithmetic: elements found in memory, sources reduced, averages divided.

numpy's own operations where it has the type; the short floats, which it has not, are widened to float32, computed with,
and rounded again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_char
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.runtime.arrays import PAIR_DTYPES
from ringtree.runtime.types import COMPLEX, INTEGERS, LOGICAL, OPS, PAIRS, SHORT_FLOATS, Dtype

Values = NDArray[Any]


def _stored(dtype: Dtype) -> np.dtype[Any]:
    if dtype in SHORT_FLOATS:
        return np.dtype(f"u{dtype.itemsize}")
    if dtype in PAIRS:
        return PAIR_DTYPES[dtype]
    return np.dtype("u1" if dtype is Dtype.BOOL else dtype.label)


STORED = {dtype: _stored(dtype) for dtype in Dtype}
"""The numpy type of elements in memory: short floats are stored as their bits."""


def _located(better: Callable[[Values, Values], Values], a: Values, b: Values) -> Values:
    """The better one of each two pairs; NaNs are better than anything, and of equals the smaller index."""
    x, y = a["value"], b["value"]
    alike = (x == y) | (np.isnan(x) & np.isnan(y))
    wins = better(y, x) | (np.isnan(y) & ~np.isnan(x))
    return np.where(np.where(alike, b["index"] < a["index"], wins & ~np.isnan(x)), b, a)


def _product(a: Values, b: Values) -> Values:
    """The product by its parts, each rounded: numpy's own may multiply and add at once, where the machine can."""
    total = np.empty_like(a)
    total.real, total.imag = a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real
    return total


STEP: dict[str, Callable[[Values, Values], Values]] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "avg": np.add,  # and divided once, at the very end
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "land": np.logical_and,
    "lor": np.logical_or,
    "lxor": np.logical_xor,
    "minloc": partial(_located, np.less),
    "maxloc": partial(_located, np.greater),
}
_OF_BOOL = STEP | {"sum": np.logical_or, "max": np.logical_or, "prod": np.logical_and, "min": np.logical_and}
_OF_COMPLEX = STEP | {"prod": _product}
_STEPS = dict.fromkeys(Dtype, STEP) | {Dtype.BOOL: _OF_BOOL} | dict.fromkeys(COMPLEX, _OF_COMPLEX)
_NAME = {code: name for name, code in OPS.items()}


def elements(address: int, count: int, dtype: Dtype) -> Values:
    """Memory as an array, not copied."""
    stored = STORED[dtype]
    if count == 0:
        return np.empty(0, stored)
    memory: Any = (c_char * (count * stored.itemsize)).from_address(address)
    return np.frombuffer(memory, stored)


def reduce(values: Sequence[Values], op: int, dtype: Dtype) -> Values:
    """All of them, in the order listed; short floats in float32, rounded once."""
    short = dtype in SHORT_FLOATS
    step = _STEPS[dtype][_NAME[op]]
    total = widen(values[0], dtype) if short else values[0].copy()
    with np.errstate(all="ignore"):
        for value in values[1:]:
            total = step(total, widen(value, dtype) if short else value).astype(total.dtype)
    return narrow(total, dtype) if short else total


def finish(values: Values, op: int, ranks: int, dtype: Dtype) -> bool:
    """Finishes a reduction in place, once, at the very end: an average is divided, integers as C does, towards zero;
    values that a logical operation left as they came, because nothing was joined with them, become 0 or 1. Returns
    whether there was anything to do."""
    if _NAME[op] in LOGICAL:
        one = narrow(np.ones(1, np.float32), dtype) if dtype in SHORT_FLOATS else 1
        values[:] = np.where(widen(values, dtype) if dtype in SHORT_FLOATS else values, one, 0)
    elif _NAME[op] != "avg":
        return False
    elif dtype in SHORT_FLOATS:
        with np.errstate(all="ignore"):
            values[:] = narrow(widen(values, dtype) / np.float32(ranks), dtype)
    elif dtype in INTEGERS:
        wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64)
        quotient = wide // wide.dtype.type(ranks)
        values[:] = quotient + ((quotient < 0) & (quotient * ranks != wide))
    else:
        parts = values.view(values.real.dtype) if dtype in COMPLEX else values
        with np.errstate(all="ignore"):
            parts /= ranks
    return True


def widen(bits: Values, dtype: Dtype) -> Values:
    """A short float's bits as float32."""
    if dtype is Dtype.FLOAT16:
        return bits.view(np.float16).astype(np.float32)
    if dtype is Dtype.BFLOAT16:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return _float8(dtype)[bits]


def narrow(values: Values, dtype: Dtype) -> Values:
    """float32 as a short float's bits, rounded to nearest, ties to even; a NaN stays one."""
    if dtype is Dtype.FLOAT16:
        with np.errstate(all="ignore"):
            return values.astype(np.float16).view(np.uint16)
    if dtype is Dtype.BFLOAT16:
        bits = values.astype(np.float32).view(np.uint32)
        rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
        return np.where(np.isnan(values), (bits >> 16).astype(np.uint16) | np.uint16(0x40), rounded)
    return _narrow8(values, dtype)


@cache
def _float8(dtype: Dtype) -> NDArray[np.float32]:
    """The value of each of the 256 patterns. e4m3fn has no infinities, and one NaN of each sign; e5m2 is as IEEE
    754."""
    mantissa_bits, bias = (3, 7) if dtype is Dtype.FLOAT8_E4M3FN else (2, 15)
    code = np.arange(128)
    exponent, mantissa = code >> mantissa_bits, (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    positive = np.where(
        exponent > 0, np.ldexp(1 + mantissa, exponent - bias), np.ldexp(mantissa, np.full(128, 1 - bias))
    )
    if dtype is Dtype.FLOAT8_E4M3FN:
        positive[0x7F] = np.nan
    else:
        positive[0x7C:] = [np.inf, np.nan, np.nan, np.nan]
    return np.concatenate([positive, -positive]).astype(np.float32)


def _narrow8(values: Values, dtype: Dtype) -> Values:
    """The nearest of the patterns; beyond the last, by half a step or more, there is infinity or, without one, NaN."""
    last = 0x7E if dtype is Dtype.FLOAT8_E4M3FN else 0x7B
    known = _float8(dtype)[: last + 1].astype(np.float64)
    known = np.append(known, 2 * known[-1] - known[-2])  # where the next would be: a whole step on
    middles = (known[:-1] + known[1:]) / 2
    magnitude = np.abs(values).astype(np.float64)
    code = np.searchsorted(middles, magnitude)  # the lower one of a tie
    tie = np.append(middles, np.inf)[code] == magnitude
    code += tie & (code % 2 == 1)
    code = np.where(np.isnan(values), 0x7F if dtype is Dtype.FLOAT8_E4M3FN else 0x7E, code)
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)
