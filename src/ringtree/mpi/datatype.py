"""Datatypes: MPI's names for the elements of a buffer. Predefined ones only; each is a numpy dtype."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ringtree.mpi.missing import missing_of_type


class Datatype:
    """A predefined type. `dtype` is numpy's, `size` (and `extent`) its bytes."""

    _predefined: ClassVar[dict[str, Datatype]] = {}  # by MPI's name
    _of_dtype: ClassVar[dict[np.dtype[Any], Datatype]] = {}

    def __init__(self, name: str = "DATATYPE_NULL", dtype: DTypeLike = "V0") -> None:
        self.name = name
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.size = self.extent = self.dtype.itemsize

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """The type of a typestring: a letter of the array module's ("i"), C's ("d"), numpy's ("<f8"), or MPI's name
        ("INT"). KeyError: if there is none."""
        if code in cls._predefined:
            return cls._predefined[code]
        try:
            dtype = np.dtype("i1" if code == "c" else code)
        except TypeError:
            dtype = np.dtype("V0")
        if not dtype.itemsize:
            raise KeyError(f"{code!r} is no typestring; expected one as of the array module or numpy")
        return cls.of(dtype)

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> Datatype:
        """The type that a numpy array of `dtype` has."""
        found = cls._of_dtype.get(dtype)
        if found is None:
            found = cls._of_dtype[dtype] = cls(str(dtype), dtype)
        return found

    def Get_size(self) -> int:
        """Bytes of one element."""
        return self.size

    def Get_extent(self) -> tuple[int, int]:
        """Lower bound, always 0, and extent, both in bytes."""
        return 0, self.extent

    def Get_name(self) -> str:
        """MPI's name, such as "MPI_INT"."""
        return f"MPI_{self.name}"

    def tocode(self) -> str:
        """numpy's typestring, such as "<f8"."""
        return self.dtype.str

    @property
    def is_predefined(self) -> bool:
        """True: there are no derived datatypes."""
        return True

    is_named = is_predefined

    @property
    def typestr(self) -> str:
        """numpy's typestring, such as "<f8"."""
        return self.dtype.str

    def __getattr__(self, name: str) -> Any:
        raise missing_of_type(name)

    def __bool__(self) -> bool:
        return self.size > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Datatype) and (self.name, self.dtype) == (other.name, other.dtype)

    def __hash__(self) -> int:
        return hash((self.name, self.dtype))

    def __repr__(self) -> str:
        return f"MPI.{self.name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return Datatype, (self.name, self.dtype)


def _pair(value: str) -> np.dtype[Any]:
    return np.dtype([("value", value), ("index", "i")], align=True)


_DTYPES: dict[str, DTypeLike] = {
    "SIGNED_CHAR": "b", "SHORT": "h", "INT": "i", "LONG": "l", "LONG_LONG": "q",
    "UNSIGNED_CHAR": "B", "UNSIGNED_SHORT": "H", "UNSIGNED": "I", "UNSIGNED_LONG": "L", "UNSIGNED_LONG_LONG": "Q",
    "FLOAT": "f", "DOUBLE": "d", "LONG_DOUBLE": "g", "C_BOOL": "?",
    "C_FLOAT_COMPLEX": "F", "C_DOUBLE_COMPLEX": "D", "C_LONG_DOUBLE_COMPLEX": "G",
    "BYTE": "B", "CHAR": "b",
    "INT8_T": "i1", "INT16_T": "i2", "INT32_T": "i4", "INT64_T": "i8",
    "UINT8_T": "u1", "UINT16_T": "u2", "UINT32_T": "u4", "UINT64_T": "u8",
    "AINT": np.intp, "OFFSET": "i8", "COUNT": "i8",
    "FLOAT_INT": _pair("f"), "DOUBLE_INT": _pair("d"), "LONG_INT": _pair("l"), "TWOINT": _pair("i"),
}  # fmt: skip

for _name, _dtype in _DTYPES.items():
    _made = Datatype._predefined[_name] = Datatype(_name, _dtype)
    Datatype._of_dtype.setdefault(_made.dtype, _made)

_ALIASES = {
    "UNSIGNED_INT": "UNSIGNED", "LONG_LONG_INT": "LONG_LONG", "BOOL": "C_BOOL", "CXX_BOOL": "C_BOOL",
    "C_COMPLEX": "C_FLOAT_COMPLEX", "COMPLEX": "C_FLOAT_COMPLEX", "CXX_FLOAT_COMPLEX": "C_FLOAT_COMPLEX",
    "DOUBLE_COMPLEX": "C_DOUBLE_COMPLEX", "CXX_DOUBLE_COMPLEX": "C_DOUBLE_COMPLEX", "INT_INT": "TWOINT",
}  # fmt: skip
for _name, _other in _ALIASES.items():
    Datatype._predefined[_name] = Datatype._predefined[_other]

DATATYPE_NULL = Datatype()


def predefined(name: str) -> Datatype | None:
    """The type of that name in MPI, without its `MPI_`."""
    return Datatype._predefined.get(name)
