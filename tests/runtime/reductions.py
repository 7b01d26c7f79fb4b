"""Reductions implemented a second time, apart from the engines: in numpy, ml_dtypes and Python; and data to reduce."""

from __future__ import annotations

from functools import reduce
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.runtime.arrays import dtype_named
from ringtree.runtime.types import COMPLEX, INTEGERS, LOGICAL, OPS, PAIRS, SHORT_FLOATS, Dtype, supported

Values = NDArray[Any]

DTYPES = {d.label: dtype_named(d.label) for d in Dtype}
KINDS = [(d.label, op) for d in Dtype for op in OPS if supported(d, op)]
"""Every type with every reduction that it has."""

_FOLD: dict[str, Any] = {
    "sum": np.add, "avg": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
}  # fmt: skip


def stated(label: str, op: str, rows: list[Values]) -> Values:
    """All rows reduced in their order, in one reduction; an average divided by their number."""
    dtype, kind = Dtype[label.upper()], DTYPES[label]
    with np.errstate(all="ignore"):
        if dtype in PAIRS:
            return _located(op, rows)
        if op in LOGICAL:
            return _truth(op, rows).astype(kind)
        if dtype is Dtype.BOOL:
            return np.asarray(reduce(_FOLD[op], rows)).astype(kind)
        if dtype in COMPLEX:
            return _complex(op, rows)
        wide = [row.astype(np.float32) for row in rows] if dtype in SHORT_FLOATS else rows
        total = np.asarray(reduce(_FOLD[op], wide)).astype(kind)
        if op != "avg":
            return total
        if dtype in INTEGERS:
            return np.array([_quotient(int(v), len(rows)) for v in total], kind)
        return (total.astype(wide[0].dtype) / wide[0].dtype.type(len(rows))).astype(kind)


def _truth(op: str, rows: list[Values]) -> Values:
    true = sum((row != 0).astype(np.int64) for row in rows)
    return np.asarray({"land": true == len(rows), "lor": true > 0, "lxor": true % 2 == 1}[op])


def _quotient(value: int, by: int) -> int:
    return abs(value) // by * (1 if value >= 0 else -1)


def _complex(op: str, rows: list[Values]) -> Values:
    """Part by part: numpy's own product may round otherwise where the machine multiplies and adds at once."""
    re, im = rows[0].real.copy(), rows[0].imag.copy()
    for row in rows[1:]:
        c, d = row.real, row.imag
        re, im = (re * c - im * d, re * d + im * c) if op == "prod" else (re + c, im + d)
    total = np.empty_like(rows[0])
    by = re.dtype.type(len(rows) if op == "avg" else 1)
    total.real, total.imag = re / by, im / by
    return total


def _located(op: str, rows: list[Values]) -> Values:
    sign = 1 if op == "minloc" else -1

    def place(pair: Any) -> tuple[bool, Any, int]:
        value, index = pair.item()
        return (False, 0, index) if isnan(value) else (True, sign * value, index)

    return np.array([min(column, key=place).item() for column in zip(*rows, strict=True)], rows[0].dtype)


def anything(label: str, random: np.random.Generator, count: int) -> Values:
    """Every pattern of bits, so NaNs, infinities and subnormals too; pairs of few values, so that many are equal."""
    dtype, kind = Dtype[label.upper()], DTYPES[label]
    if dtype in PAIRS:
        values = [-1, 0, 1] if label.startswith("int") else [-1, -0.0, 0, 1, np.nan, np.inf, -np.inf]
        drawn = np.empty(count, kind)
        drawn["value"], drawn["index"] = random.choice(values, count), random.integers(-3, 4, count)
        return drawn
    if dtype is Dtype.BOOL:
        return random.integers(0, 2, count).astype(bool)
    return np.frombuffer(random.bytes(count * dtype.itemsize), kind).copy()


def exact(label: str, op: str, random: np.random.Generator, count: int) -> Values:
    """Numbers whose reduction over eight ranks is exact, or wraps alike, in any order and any number of steps."""
    dtype, kind = Dtype[label.upper()], DTYPES[label]
    if dtype in (*INTEGERS, Dtype.BOOL) and op not in LOGICAL:
        return anything(label, random, count)
    if dtype in PAIRS:
        drawn = np.empty(count, kind)
        drawn["value"], drawn["index"] = random.integers(-3, 4, count), random.integers(0, 50, count)
        return drawn
    if op in LOGICAL:
        return random.choice([0, 0, 1, 2], count).astype(kind)
    if dtype in COMPLEX and op == "prod":
        return random.choice([1, -1, 1j, 1 + 1j, 1 - 1j], count).astype(kind)
    if op == "prod":
        return random.choice([-2, -1, -0.5, 0.5, 1, 2], count).astype(kind)
    high = 1 if dtype.itemsize == 1 else 100
    drawn = random.integers(-high, high + 1, count).astype(np.float64)
    return (drawn + 1j * drawn[::-1]).astype(kind) if dtype in COMPLEX else drawn.astype(kind)
