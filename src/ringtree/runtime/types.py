"""Element types and reductions: which there are, by which codes engines know them, and which go together.

FAMILIES is the table. Errors and docs/types.md are made from it, and both engines' kernels are held to it by tests.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Dtype(IntEnum):
    """The element types that engines know, by the codes they know them by. A pair is (value, index), laid out as C
    lays out such a struct."""

    itemsize: int
    label: str

    BOOL = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    UINT8 = 5
    UINT16 = 6
    UINT32 = 7
    UINT64 = 8
    FLOAT16 = 9
    BFLOAT16 = 10
    FLOAT32 = 11
    FLOAT64 = 12
    COMPLEX64 = 13
    COMPLEX128 = 14
    FLOAT8_E4M3FN = 15
    FLOAT8_E5M2 = 16
    FLOAT32_INT32 = 17
    FLOAT64_INT64 = 18
    INT32_INT32 = 19
    INT64_INT64 = 20
    FLOAT64_INT32 = 21


for _dtype, _itemsize in zip(
    Dtype, (1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1, 1, 8, 16, 8, 16, 16), strict=True
):
    _dtype.itemsize, _dtype.label = _itemsize, _dtype.name.lower()

BY_LABEL = {d.label: d for d in Dtype}
INTEGERS = tuple(Dtype(code) for code in range(Dtype.INT8, Dtype.UINT64 + 1))
SHORT_FLOATS = (Dtype.FLOAT16, Dtype.BFLOAT16, Dtype.FLOAT8_E4M3FN, Dtype.FLOAT8_E5M2)
"""Types for which numpy has no arithmetic, or a slow one: computed in float32."""
COMPLEX = (Dtype.COMPLEX64, Dtype.COMPLEX128)
PAIRS = tuple(Dtype(code) for code in range(Dtype.FLOAT32_INT32, Dtype.FLOAT64_INT32 + 1))

OPS = {
    "sum": 0,
    "prod": 1,
    "max": 2,
    "min": 3,
    "avg": 4,
    "band": 5,
    "bor": 6,
    "bxor": 7,
    "land": 8,
    "lor": 9,
    "lxor": 10,
    "minloc": 11,
    "maxloc": 12,
}
"""The reductions, by the codes that engines know them by; -1 where nothing is reduced."""
ARITHMETIC = ("sum", "prod", "max", "min")
BITWISE = ("band", "bor", "bxor")
LOGICAL = ("land", "lor", "lxor")
LOCATING = ("minloc", "maxloc")


class DtypeFamily(NamedTuple):
    """Types that are reduced alike: their operations, the type computed in, and the end of an average."""

    dtypes: tuple[Dtype, ...]
    ops: tuple[str, ...]
    computed: str
    average: str = "none"


FAMILIES = (
    DtypeFamily(
        (Dtype.BOOL,), (*ARITHMETIC, *BITWISE, *LOGICAL), "as numpy does: sum and max are or, prod and min are and"
    ),
    DtypeFamily(
        INTEGERS,
        (*ARITHMETIC, "avg", *BITWISE, *LOGICAL),
        "in the type itself, where it wraps",
        "of the wrapped sum, truncated toward zero",
    ),
    DtypeFamily(
        SHORT_FLOATS,
        (*ARITHMETIC, "avg", *LOGICAL),
        "in float32 inside one reduction, rounded once at its end, to nearest, ties to even",
        "of the rounded sum, divided in float32 and rounded again",
    ),
    DtypeFamily(
        (Dtype.FLOAT32, Dtype.FLOAT64), (*ARITHMETIC, "avg", *LOGICAL), "in the type itself", "of the sum, divided"
    ),
    DtypeFamily(
        COMPLEX,
        ("sum", "prod", "avg"),
        "in the type itself, products by the four of the parts",
        "of the sum, each part divided",
    ),
    DtypeFamily(PAIRS, LOCATING, "by value; of equal ones, and of NaNs, which win, the one of the smaller index"),
)

_FAMILY = {dtype: family for family in FAMILIES for dtype in family.dtypes}


def supported(dtype: Dtype, op: str) -> bool:
    """Whether elements of that type are reduced by that operation."""
    return op in _FAMILY[dtype].ops


def op_code(op: str, dtype: Dtype) -> int:
    """The code of a reduction. ValueError for one that there is not, TypeError for one that `dtype` does not have."""
    if not isinstance(op, str) or op not in OPS:
        raise ValueError(f"no reduction {op!r}: expected one of {', '.join(OPS)}")
    if not supported(dtype, op):
        raise TypeError(f"{op} of {dtype.label} is not supported; expected one of {', '.join(_FAMILY[dtype].ops)}")
    return OPS[op]


def markdown() -> str:
    """The table as docs/types.md shows it."""
    lines = ["| types | reductions | computed | avg |", "| --- | --- | --- | --- |"]
    for dtypes, ops, computed, average in FAMILIES:
        lines.append(f"| {', '.join(d.label for d in dtypes)} | {', '.join(ops)} | {computed} | {average} |")
    return "\n".join(lines) + "\n"
