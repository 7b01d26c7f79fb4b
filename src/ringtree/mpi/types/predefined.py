"""The predefined datatypes: MPI's names for numpy's types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike


class UnknownTypestring(ValueError, KeyError):
    """The error for a code of no type: of `Datatype.fromcode` mpi4py raises ValueError, of a buffer's KeyError."""

    __str__ = Exception.__str__


def _pair(value: str) -> np.dtype[Any]:
    return np.dtype([("value", value), ("index", "i")], align=True)


DTYPES: dict[str, DTypeLike] = {
    "SIGNED_CHAR": "b", "SHORT": "h", "INT": "i", "LONG": "l", "LONG_LONG": "q",
    "UNSIGNED_CHAR": "B", "UNSIGNED_SHORT": "H", "UNSIGNED": "I", "UNSIGNED_LONG": "L", "UNSIGNED_LONG_LONG": "Q",
    "FLOAT": "f", "DOUBLE": "d", "LONG_DOUBLE": "g", "C_BOOL": "?",
    "C_FLOAT_COMPLEX": "F", "C_DOUBLE_COMPLEX": "D", "C_LONG_DOUBLE_COMPLEX": "G",
    "BYTE": "B", "CHAR": "b",
    "INT8_T": "i1", "INT16_T": "i2", "INT32_T": "i4", "INT64_T": "i8",
    "UINT8_T": "u1", "UINT16_T": "u2", "UINT32_T": "u4", "UINT64_T": "u8",
    "AINT": np.intp, "OFFSET": "i8", "COUNT": "i8",
    "WCHAR": "i4", "FLOAT16_T": "e", "FLOAT32_T": "f", "FLOAT64_T": "d", "PACKED": "B",
    "CHARACTER": "b", "LOGICAL": "i", "INTEGER": "i", "REAL": "f", "DOUBLE_PRECISION": "d",
    **{f"LOGICAL{n}": f"i{n}" for n in (1, 2, 4, 8)}, **{f"INTEGER{n}": f"i{n}" for n in (1, 2, 4, 8)},
    **{f"REAL{n}": f"f{n}" for n in (2, 4, 8)}, **{f"COMPLEX{n}": f"c{n}" for n in (8, 16)},
    "SHORT_INT": _pair("h"), "LONG_DOUBLE_INT": _pair("g"),
    "FLOAT_INT": _pair("f"), "DOUBLE_INT": _pair("d"), "LONG_INT": _pair("l"), "TWOINT": _pair("i"),
}  # fmt: skip
"""MPI's names, without `MPI_`, and numpy's types."""

ALIASES = {
    "SIGNED_SHORT": "SHORT", "SIGNED_INT": "INT", "SIGNED_LONG": "LONG", "SIGNED_LONG_LONG": "LONG_LONG",
    **{f"SINT{n}_T": f"INT{n}_T" for n in (8, 16, 32, 64)}, "F_BOOL": "LOGICAL", "F_INT": "INTEGER", "F_FLOAT": "REAL",
    "F_DOUBLE": "DOUBLE_PRECISION", "F_COMPLEX": "C_FLOAT_COMPLEX", "F_FLOAT_COMPLEX": "C_FLOAT_COMPLEX",
    "F_DOUBLE_COMPLEX": "C_DOUBLE_COMPLEX", "CXX_LONG_DOUBLE_COMPLEX": "C_LONG_DOUBLE_COMPLEX",
    "UNSIGNED_INT": "UNSIGNED", "LONG_LONG_INT": "LONG_LONG", "BOOL": "C_BOOL", "CXX_BOOL": "C_BOOL",
    "C_COMPLEX": "C_FLOAT_COMPLEX", "COMPLEX": "C_FLOAT_COMPLEX", "CXX_FLOAT_COMPLEX": "C_FLOAT_COMPLEX",
    "DOUBLE_COMPLEX": "C_DOUBLE_COMPLEX", "CXX_DOUBLE_COMPLEX": "C_DOUBLE_COMPLEX", "INT_INT": "TWOINT",
}  # fmt: skip
"""Further names of these types."""
