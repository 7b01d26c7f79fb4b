"""Reductions: MPI's names for ringtree's, and for what they do to Python objects."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ringtree.mpi.errors import ERR_OP, Exception
from ringtree.mpi.missing import MpiObject
from ringtree.mpi.types.buffers import block, checked
from ringtree.mpi.types.datatype import Datatype
from ringtree.mpi.types.packed import way_back
from ringtree.runtime.communicator.calls.operations import Op as Native
from ringtree.runtime.engines.reference.kernel import STEP

ON_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum,
    "LAND": np.logical_and, "LOR": np.logical_or, "LXOR": np.logical_xor,
    "BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor,
    "MAXLOC": STEP["maxloc"], "MINLOC": STEP["minloc"],
    "REPLACE": lambda old, new: new, "NO_OP": lambda old, new: old,
}  # fmt: skip
"""MPI's operations on numpy arrays; those with a place take pairs."""


@lru_cache(maxsize=256)
def check(name: str, dtype: np.dtype[Any]) -> None:
    """Raises Exception of ERR_OP where arrays of `dtype` cannot be reduced by an operation."""
    nothing = np.empty(0, dtype)
    try:
        ON_ARRAYS[name](nothing, nothing)
    except (TypeError, LookupError, ValueError) as error:
        raise Exception(ERR_OP, f"{name} does not reduce elements of {Datatype.of(dtype)}") from error


UserFunction = Callable[[Any, Any, Any], Any]


class Op(MpiObject):
    """A reduction operation. `native`: the value for `op=` of ringtree's own methods. A call with two objects reduces
    them."""

    name: str
    _given: UserFunction  # of a user's operation

    def __init__(
        self,
        name: str | Op = "OP_NULL",
        native: Any = None,
        function: Callable[[Any, Any], Any] | None = None,
        commute: bool = True,
    ) -> None:
        self.native, self._function, self.is_commutative = native, function, commute
        if isinstance(name, Op):
            self.__dict__.update(name.__dict__)
        else:
            self.name, self.is_predefined = name, not name.startswith("user ")

    @classmethod
    def Create(cls, function: UserFunction, commute: bool = False) -> Op:
        """`function(a, b, datatype)` leaves a op b in `b`: both are writable buffers of elements of that type. For the
        lower-case methods it is called with two objects and None, and returns the result."""

        def on_arrays(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            left, right = np.array(a), np.array(b)
            function(left.view(np.uint8).data, right.view(np.uint8).data, Datatype.of(right.dtype))
            return right

        def on_objects(a: Any, b: Any) -> Any:
            return function(a, b, None)

        name = getattr(function, "__name__", type(function).__name__)
        made = cls(f"user {name}", Native(on_arrays, commutative=commute, name=name), on_objects, commute)
        made._given = function
        return made

    def Is_commutative(self) -> bool:
        """Whether operands may be exchanged."""
        return self.is_commutative

    def Reduce_local(self, inbuf: Any, inoutbuf: Any) -> None:
        """Reduces `inbuf` into `inoutbuf`, without communication."""
        x, out = block(inbuf), checked(block(inoutbuf))
        if x.size != out.size or x.dtype != out.dtype:
            raise ValueError(f"{x.size} of {x.dtype} into {out.size} of {out.dtype}; expected as many of one type")
        user = self.native if isinstance(self.native, Native) else None
        if user is None:
            native(self)
            check(self.name, out.dtype)
        out[...] = user.function(x, out) if user else ON_ARRAYS[self.name](x, out)
        if unpack := way_back([out]):
            unpack(None)

    def Free(self) -> None:
        """Makes this the null operation, which reduces nothing. Exception of ERR_OP: for a predefined one."""
        if self.is_predefined:
            raise Exception(ERR_OP, f"{self.name} is predefined and not freed; expected an operation of Op.Create")
        self.__init__()  # type: ignore[misc]

    def free(self) -> None:
        """Free of what is neither null nor predefined."""
        if not self.is_predefined:
            self.Free()

    def __call__(self, a: Any, b: Any) -> Any:
        """The reduction of two objects; ValueError where the operation serves buffers only."""
        if self._function is None:
            raise ValueError(f"{self.name} does not reduce objects")
        return self._function(a, b)

    def __bool__(self) -> bool:
        return self._function is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and (self.name, self._function) == (other.name, other._function)

    def __hash__(self) -> int:
        return hash((self.name, self._function))

    def __repr__(self) -> str:
        return f"MPI.{self.name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        if not self.is_predefined:
            return Op.Create, (self._given, self.is_commutative)
        named = globals()[self.name]
        return self.name if named is self else (Op, (named,))


def _maxloc(a: Any, b: Any) -> Any:
    return tuple(a if a[0] > b[0] or (a[0] == b[0] and a[1] <= b[1]) else b)


def _minloc(a: Any, b: Any) -> Any:
    return tuple(a if a[0] < b[0] or (a[0] == b[0] and a[1] <= b[1]) else b)


OP_NULL = Op()
SUM = Op("SUM", "sum", operator.add)
PROD = Op("PROD", "prod", operator.mul)
MAX = Op("MAX", "max", max)
MIN = Op("MIN", "min", min)
LAND = Op("LAND", "land", lambda a, b: bool(a) and bool(b))
LOR = Op("LOR", "lor", lambda a, b: bool(a) or bool(b))
LXOR = Op("LXOR", "lxor", lambda a, b: bool(a) != bool(b))
BAND = Op("BAND", "band", operator.and_)
BOR = Op("BOR", "bor", operator.or_)
BXOR = Op("BXOR", "bxor", operator.xor)
MAXLOC = Op("MAXLOC", "maxloc", _maxloc)
MINLOC = Op("MINLOC", "minloc", _minloc)
REPLACE = Op("REPLACE", None, lambda a, b: b, commute=False)
NO_OP = Op("NO_OP", None, lambda a, b: a, commute=False)


def native(op: Any) -> Any:
    """The `op=` of ringtree's methods for an Op of this module; any other value as it is. Exception of ERR_OP: if the
    operation is null, or one of windows."""
    if not isinstance(op, Op):
        return op
    if op.native is None:
        raise Exception(ERR_OP, f"{op.name} does not reduce buffers")
    return op.native
