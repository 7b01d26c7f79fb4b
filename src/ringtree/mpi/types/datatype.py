"""Datatypes: MPI's names for the elements of a buffer. A predefined one is a numpy dtype, a derived one a layout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import DTypeLike

from ringtree.mpi import constants
from ringtree.mpi.errors import ERR_TRUNCATE, ERR_TYPE, Exception
from ringtree.mpi.missing import MpiObject
from ringtree.mpi.types.constructors import Constructors, joined
from ringtree.mpi.types.layout import Layout
from ringtree.mpi.types.memory import flat
from ringtree.mpi.types.packed import gathered, way_back
from ringtree.mpi.types.predefined import ALIASES, DTYPES, UnknownTypestring

_OCTET: Final = np.dtype("u1")


def _check(kinds: Sequence[Any]) -> None:
    """Exception of ERR_TYPE: unless these are types, and none is null."""
    for kind in kinds:
        if not isinstance(kind, Datatype) or not kind:
            raise Exception(ERR_TYPE, f"{kind!r} has no elements; expected a datatype")


class Datatype(Constructors, MpiObject):
    """A type; of a predefined one `dtype` is numpy's, of a derived one that of its elements, bytes where they differ.
    `size` and `extent` are in bytes."""

    _predefined: ClassVar[dict[str, Datatype]] = {}  # by MPI's name
    _of_dtype: ClassVar[dict[np.dtype[Any], Datatype]] = {}

    _name: str
    dtype: np.dtype[Any]

    def __init__(self, name: str | Datatype = "DATATYPE_NULL", dtype: DTypeLike = "V0") -> None:
        if not isinstance(name, str | Datatype):
            raise TypeError(f"got {type(name).__name__}; expected a Datatype")
        self._name = name._name if isinstance(name, Datatype) else name
        self.dtype = name.dtype if isinstance(name, Datatype) else np.dtype(dtype)
        self.size = self.extent = self.dtype.itemsize

    @cached_property
    def layout(self) -> Layout:  # type: ignore[override]
        """The bytes of an element."""
        return Layout.plain(self.size)

    @property
    def alignment(self) -> int:
        """Bytes to a multiple of which C places an element."""
        return self.dtype.alignment

    def _made(self, combiner: str, layout: Layout, **given: Any) -> Datatype:
        _check([self])
        alignment = 1 if combiner == "RESIZED" else self.alignment
        return Derived((self._again(), combiner, given), layout, self.dtype, alignment)

    @classmethod
    def Create_struct(
        cls, blocklengths: Sequence[int], displacements: Sequence[int], datatypes: Sequence[Datatype]
    ) -> Datatype:
        """Blocks of different types; displacements in bytes."""
        _check(datatypes)
        alignment = max((kind.alignment for kind in datatypes), default=1)
        kinds = {kind.dtype for kind in datatypes}
        dtype = kinds.pop() if len(kinds) == 1 else np.dtype("u1")
        given: dict[str, Any] = {"blocklengths": [*map(int, blocklengths)], "displacements": [*map(int, displacements)]}
        given["datatypes"] = [kind._again() for kind in datatypes]
        layout = joined(blocklengths, displacements, datatypes, alignment)
        return Derived((DATATYPE_NULL, "STRUCT", given), layout, dtype, alignment)

    def Commit(self) -> Datatype:
        """Returns the type: there is nothing to prepare."""
        _check([self])
        return self

    def Pack(self, inbuf: Any, outbuf: Any, position: int, comm: object) -> int:
        """Copies the elements of this type that `inbuf` holds to byte `position` of `outbuf`; returns the position
        behind them."""
        memory, room = flat(inbuf, _OCTET), flat(outbuf, _OCTET)
        packed = gathered(memory, 0, self.layout, self._count(memory))
        if position < 0 or position + packed.size > room.size:
            raise Exception(ERR_TRUNCATE, f"{packed.size} bytes from {position} on: the buffer has {room.size}")
        room[position : position + packed.size] = packed
        return position + packed.size

    def Unpack(self, inbuf: Any, position: int, outbuf: Any, comm: object) -> int:
        """Fills the elements of this type that `outbuf` holds from byte `position` of `inbuf` on; returns the position
        behind them."""
        room, memory = flat(inbuf, _OCTET), flat(outbuf, _OCTET)
        packed = gathered(memory, 0, self.layout, self._count(memory))
        if position < 0 or position + packed.size > room.size:
            raise Exception(ERR_TRUNCATE, f"{packed.size} bytes from {position} on: the buffer has {room.size}")
        packed[:] = room[position : position + packed.size]
        if unpack := way_back([packed]):
            unpack(None)
        return position + packed.size

    def _count(self, memory: np.ndarray[Any, Any]) -> int:
        """The elements that memory holds; the last need not have its full extent."""
        _check([self])
        if self.extent < 1 or memory.size < self.layout.true_upper:
            return 0
        return (memory.size - self.layout.true_upper) // self.extent + 1

    def Pack_size(self, count: int, comm: object) -> int:
        """Bytes that `count` packed elements take."""
        _check([self])
        return count * self.size

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """The type of a typestring: a letter of the array module's ("i"), C's ("d"), numpy's ("<f8"), or MPI's name
        ("INT"). UnknownTypestring: if there is none."""
        if code in cls._predefined:
            return cls._predefined[code]
        try:
            dtype = np.dtype("i1" if code == "c" else code)
        except TypeError:
            dtype = np.dtype("V0")
        if not dtype.itemsize:
            raise UnknownTypestring(f"{code!r} is no typestring; expected one as of the array module or numpy")
        return cls.of(dtype)

    @classmethod
    def Get_value_index(cls, value: Datatype, index: Datatype) -> Datatype:
        """The type of a pair, which MAXLOC and MINLOC reduce; DATATYPE_NULL where there is none of these types."""
        _check([value, index])
        wanted = [value.dtype, index.dtype]
        for pair in cls._predefined.values():
            if [field[0] for field in (pair.dtype.fields or {}).values()] == wanted:
                return pair
        return DATATYPE_NULL

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> Datatype:
        """The type that a numpy array of `dtype` has."""
        found = cls._of_dtype.get(dtype)
        if found is None:
            found = cls._of_dtype[dtype] = cls(str(dtype), dtype)
        return found

    def Get_size(self) -> int:
        """Bytes of one element."""
        _check([self])
        return self.size

    def Get_extent(self) -> tuple[int, int]:
        """Lower bound and extent, both in bytes."""
        _check([self])
        return self.lb, self.extent

    def Get_true_extent(self) -> tuple[int, int]:
        """The first byte that belongs to the type, and the bytes from there to the last one."""
        _check([self])
        return self.true_lb, self.true_extent

    @property
    def lb(self) -> int:
        """Lower bound, in bytes."""
        return self.layout.lower

    @property
    def ub(self) -> int:
        """Upper bound, in bytes."""
        return self.layout.upper

    @property
    def true_lb(self) -> int:
        """The first byte that belongs to the type."""
        return self.layout.true_lower

    @property
    def true_ub(self) -> int:
        """The byte behind the last that belongs to the type."""
        return self.layout.true_upper

    @property
    def true_extent(self) -> int:
        """Bytes from `true_lb` to `true_ub`."""
        return self.true_ub - self.true_lb

    def Get_name(self) -> str:
        """MPI's name, such as "MPI_INT"; a derived type's is the one that `Set_name` gave."""
        return f"MPI_{self._name}"

    def decode(self) -> tuple[Datatype, str, dict[str, Any]]:
        """The type that this one is made of, the constructor ("VECTOR"), and its arguments by name; for a predefined
        type itself, "NAMED" and nothing."""
        return self, "NAMED", {}

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        """The recipe: the constructor's whole numbers, its bytes, nothing, and the types."""
        base, combiner, given = self.decode()
        if combiner == "NAMED":
            raise Exception(ERR_TYPE, f"{self} is predefined and has no contents; expected a derived type")
        numbers: list[int] = []
        places: list[int] = []
        for name, value in given.items():
            in_bytes = (name in ("stride", "displacements") and combiner[0] in "HS") or name in ("lb", "extent")
            if name != "datatypes":
                (places if in_bytes else numbers).extend(value if isinstance(value, list) else [value])
        lists = [len(value) for value in given.values() if isinstance(value, list)]
        kinds = given.get("datatypes", [base])
        return [*lists[:1], *numbers], places, [], [kind._again() for kind in kinds]

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        """The lengths of Get_contents' lists, and the constructor."""
        lengths = [0] * 4 if self.combiner == constants.COMBINER_NAMED else [len(part) for part in self.Get_contents()]
        return (*lengths, self.combiner)  # type: ignore[return-value]

    @property
    def contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        """As Get_contents."""
        return self.Get_contents()

    @property
    def envelope(self) -> tuple[int, int, int, int, int]:
        """As Get_envelope."""
        return self.Get_envelope()

    def _again(self) -> Datatype:
        """Returns the type as an object that is freed by itself: others that are made of it stay what they are."""
        return self

    def Set_name(self, name: str) -> None:
        """Does nothing: a predefined type keeps its name."""

    @property
    def name(self) -> str:
        """As Get_name; what is set is as by Set_name."""
        return self.Get_name()

    @name.setter
    def name(self, name: str) -> None:
        self.Set_name(name)

    def Free(self) -> None:
        """Raises Exception of ERR_TYPE: a predefined type, or a null one, is not freed."""
        raise Exception(ERR_TYPE, f"{self} is not freed; expected a derived type")

    def free(self) -> None:
        """Free of what is neither null nor predefined."""
        if not self.is_predefined:
            self.Free()

    @property
    def combiner(self) -> int:
        """The constructor, as COMBINER_VECTOR."""
        return constants.COMBINERS.index(self.decode()[1])

    def tocode(self) -> str:
        """A letter for a type of C or Fortran, such as "d"; the typestring for one of a fixed size. ValueError: for a
        pair, and DATATYPE_NULL."""
        if self.dtype.kind == "V":
            raise ValueError(f"{self} has no typestring; expected a type of one number")
        return self.typestr if any(letter.isdigit() for letter in self._name) else self.typechar

    @property
    def is_predefined(self) -> bool:
        """Whether MPI has the type without a constructor."""
        return self.combiner == constants.COMBINER_NAMED

    is_named = is_predefined

    @property
    def typestr(self) -> str:
        """numpy's typestring, such as "f8"; of no bytes, an empty one."""
        return self.dtype.str.lstrip("<|=" if sys.byteorder == "little" else ">|=") if self else ""

    @property
    def typechar(self) -> str:
        """numpy's letter, such as "d"; "V" for a derived type."""
        return self.dtype.char

    def __bool__(self) -> bool:
        return self._name != "DATATYPE_NULL"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Datatype) and (self._name, self.dtype) == (other._name, other.dtype)

    def __hash__(self) -> int:
        return hash((self._name, self.dtype))

    def __repr__(self) -> str:
        return f"MPI.{self._name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self is DATATYPE_NULL:
            return "DATATYPE_NULL"
        if self._predefined.get(self._name) is self:
            return Datatype.fromcode, (self._name,)
        return Datatype, (self._name, self.dtype)


class Derived(Datatype):
    """A type made of another. The recipe: the type that it is made of, the constructor, its arguments."""

    def __init__(
        self, recipe: tuple[Datatype, str, dict[str, Any]], layout: Layout, dtype: np.dtype[Any], alignment: int
    ) -> None:
        self._name, self.dtype, self._recipe, self._alignment = "", dtype, recipe, alignment
        self.layout, self.size, self.extent = layout, layout.size, layout.extent

    @property
    def alignment(self) -> int:
        """Bytes to a multiple of which C places an element."""
        return self._alignment

    def Get_name(self) -> str:
        """The name that `Set_name` gave."""
        return self._name

    def Set_name(self, name: str) -> None:
        """Names the type, in this process."""
        self._name = name

    def decode(self) -> tuple[Datatype, str, dict[str, Any]]:
        """The type that this one is made of, the constructor ("VECTOR"), and its arguments by name."""
        base, combiner, given = self._recipe
        kinds = {"datatypes": [kind._again() for kind in given["datatypes"]]} if "datatypes" in given else {}
        return base._again(), combiner, {**given, **kinds}

    def tocode(self) -> str:
        """Typestring of the type that this is a Dup of. ValueError: for any other derived type."""
        if self._recipe[1] == "DUP":
            return self._recipe[0].tocode()
        raise ValueError("a derived type has no typestring; expected a predefined type")

    @property
    def typestr(self) -> str:
        """numpy's typestring of so many bytes, such as "V24"; of a Dup, that of the type it copies."""
        return self._recipe[0].typestr if self._recipe[1] == "DUP" else f"V{self.extent}"

    @property
    def typechar(self) -> str:
        """The letter "V"; of a Dup, that of the type it copies."""
        return self._recipe[0].typechar if self._recipe[1] == "DUP" else "V"

    def Free(self) -> None:
        """Makes this DATATYPE_NULL; calls that were started keep what they need."""
        vars(self).clear()
        self.__class__ = Datatype  # type: ignore[assignment]
        Datatype.__init__(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<Datatype {self._recipe[1]} of {self.size} bytes in {self.extent}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, self._recipe

    def _again(self) -> Datatype:
        made = object.__new__(Derived)
        vars(made).update(vars(self))
        return made


def _remade(base: Datatype, combiner: str, given: dict[str, Any]) -> Datatype:
    """The type of a recipe, for pickles."""
    constructor = "Dup" if combiner == "DUP" else f"Create_{combiner.lower()}"
    made: Datatype = getattr(base, constructor)(**given)
    return made


for _name, _dtype in DTYPES.items():
    _made = Datatype._predefined[_name] = Datatype(_name, _dtype)
    Datatype._of_dtype.setdefault(_made.dtype, _made)

for _name, _other in ALIASES.items():
    Datatype._predefined[_name] = Datatype._predefined[_other]

DATATYPE_NULL = Datatype()
for _name in ("BFLOAT16_T", "LOGICAL16", "INTEGER16", "REAL16", "COMPLEX4", "COMPLEX32"):
    Datatype._predefined[_name] = DATATYPE_NULL  # numpy has not


TYPES_BY_CODE = {
    code: Datatype.fromcode(code)
    for code in (*"?bhilqBHILQefdgFDG", *(f"{kind}{n}" for kind in "iu" for n in (1, 2, 4, 8)), "f4", "f8", "c8", "c16")
}
"""mpi4py's table of types, which programs use by the name `_typedict`."""


def predefined(name: str) -> Datatype | None:
    """The type of that name in MPI, without its `MPI_`."""
    return Datatype._predefined.get(name)
