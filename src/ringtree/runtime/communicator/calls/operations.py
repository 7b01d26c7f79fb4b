"""The operation of a reduction on two values: the engine's own operations by name, a scaled sum, or a function of
yours."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ringtree.runtime.arrays import Array, dtype_named, readable
from ringtree.runtime.types import COMPLEX, INTEGERS, PAIRS, SHORT_FLOATS, Dtype

OF_ONE_ARRAY: tuple[Any, ...] = (sum, max, min, any, all, np.sum, np.prod, np.max, np.min, np.mean, np.any, np.all)
"""Functions that reduce one array; of two, `sum` adds the first's elements to the second, `any` and `all`
return a truth value, and the others fail."""


class Op:
    """A reduction by a Python function of two arrays, which returns a third of the same shape and type and changes
    neither.

    It must be associative; unless `commutative`, contributions are joined in rank order. The engine runs no Python:
    messages carry whole arrays, each of which the function sees as one, and a call costs some 100 us and a function
    call for every joining. An operation with a name is faster by name.
    """

    __slots__ = ("commutative", "function", "name")

    def __init__(self, function: Callable[[Any, Any], Any], commutative: bool = False, name: str | None = None) -> None:
        if not callable(function):
            raise TypeError(f"got {type(function).__name__} as an operation; expected a function of two arrays")
        if any(function is other for other in OF_ONE_ARRAY):
            raise TypeError(
                f"got {function.__name__!r} as an operation, a function of one array; expected a name, such as "
                '"sum" or "max", or a function of two arrays, such as numpy.add or numpy.maximum'
            )
        self.function, self.commutative = function, commutative
        self.name = name or getattr(function, "__name__", type(function).__name__)

    def __repr__(self) -> str:
        return f"Op({self.name}, commutative={self.commutative})"


class Scaled:
    """A sum to which this rank gives its values times `factor`; see `scaled`."""

    __slots__ = ("factor",)

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __repr__(self) -> str:
        return f"scaled({self.factor!r})"

    def apply(self, x: Array) -> Array:
        """`x` times the factor, in memory of its own."""
        if x.dtype is Dtype.BOOL or x.dtype in PAIRS:
            raise TypeError(f"a scaled sum of {x.dtype.label}: expected numbers")
        owner = as_named(x).owner
        number = _factor(self.factor, x.dtype)
        if isinstance(owner, np.ndarray):
            wide = owner.astype(np.float32) if x.dtype in SHORT_FLOATS else owner
            with np.errstate(all="ignore"):
                product = np.asarray(wide * wide.dtype.type(number)).astype(owner.dtype)  # integers wrap
        else:
            wide = owner.float() if x.dtype in SHORT_FLOATS else owner
            product = (wide * number).to(owner.dtype)
        return readable(product, on_device=x.device is not None)


def scaled(factor: Any) -> Scaled:
    """A sum in which each rank's values are multiplied by its own `factor` first, in their type (16- and 8-bit floats
    in float32, rounded once). The call raises TypeError: if integers are scaled by another number, or elements are bool
    or pairs; ValueError: if the factor does not fit the type."""
    return Scaled(factor)


Operation = str | Op | Scaled | Callable[[Any, Any], Any]
"""The values that a reduction's `op` may have."""


def as_op(op: Any) -> Op | Scaled | None:
    """`op` as an Op or a Scaled, also where it is a bare function; None for all else."""
    if isinstance(op, Op | Scaled):
        return op
    return Op(op) if callable(op) else None


def _factor(factor: Any, dtype: Dtype) -> Any:
    """A factor as a number that elements of the type can be multiplied by."""
    number: Any
    try:
        number = operator.index(factor) if dtype in INTEGERS else complex(factor) if dtype in COMPLEX else float(factor)
    except (TypeError, ValueError):
        kind = "whole" if dtype in INTEGERS else "complex" if dtype in COMPLEX else "real"
        raise TypeError(f"scaled({factor!r}) of {dtype.label}: expected a {kind} number as the factor") from None
    if dtype in INTEGERS and not np.iinfo(dtype.label).min <= number <= np.iinfo(dtype.label).max:  # tensors would wrap
        raise ValueError(f"scaled({number}): the factor does not fit {dtype.label}")
    return number


def as_named(x: Array) -> Array:
    """The same memory as elements of the named type of its bits, which can be computed with."""
    if x.named is None or str(x.owner.dtype).removeprefix("torch.") == x.dtype.label:
        return x
    if not isinstance(x.owner, np.ndarray):
        raise TypeError(f"an operation in Python on raw {x.dtype.label} in a tensor: expected a tensor of that type")
    return Array(x.owner.view(dtype_named(x.named)), x.address, x.shape, x.dtype, x.count, x.copied)
