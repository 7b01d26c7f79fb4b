"""Users' arrays as addresses: numpy arrays, torch CPU tensors (torch is never imported here), lists and numbers.

Engines see an address, a count and a type's code. Everything about shapes, kinds and who owns the memory ends here.
"""

from __future__ import annotations

import math
import sys
from enum import IntEnum
from typing import Any

import numpy as np


class Dtype(IntEnum):
    """The element types that engines know, by the codes they know them by."""

    itemsize: int
    label: str

    INT32 = 3
    INT64 = 4
    BFLOAT16 = 10
    FLOAT32 = 11
    FLOAT64 = 12


for _dtype, _itemsize in zip(Dtype, (4, 8, 2, 4, 8), strict=True):
    _dtype.itemsize, _dtype.label = _itemsize, _dtype.name.lower()

_BY_LABEL = {d.label: d for d in Dtype}
_BY_TYPE: dict[type, Dtype] = {
    np.dtype(char).type: d
    for char, d in zip("ilqfd", (Dtype.INT32, Dtype.INT64, Dtype.INT64, Dtype.FLOAT32, Dtype.FLOAT64), strict=True)
}
SUPPORTED = ", ".join(_BY_LABEL)

OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}
"""The reductions, by the codes that engines know them by; -1 where nothing is reduced."""


def op_code(op: str) -> int:
    try:
        return OPS[op]
    except (KeyError, TypeError):
        raise ValueError(f"no reduction {op!r}: expected one of {', '.join(OPS)}") from None


class Array:
    """A contiguous array. `owner` is the numpy array or tensor whose memory it is; `copied`: not the user's own."""

    __slots__ = ("address", "copied", "count", "dtype", "nbytes", "owner", "shape")

    def __init__(
        self, owner: Any, address: int, shape: tuple[int, ...], dtype: Dtype, count: int, copied: bool = False
    ) -> None:
        self.owner, self.address, self.shape, self.dtype, self.count = owner, address, shape, dtype, count
        self.nbytes = count * dtype.itemsize
        self.copied = copied

    def overlaps(self, other: Array) -> bool:
        return self.address < other.address + other.nbytes and other.address < self.address + self.nbytes

    def copy(self) -> Array:
        """The same contents in memory of its own."""
        if _is_tensor(self.owner):
            return readable(self.owner.clone())
        return readable(self.owner.copy())


def readable(x: Any) -> Array:
    """`x` as an input: copied where it is not contiguous. TypeError for element types that engines do not know."""
    if _is_tensor(x):
        dtype = _tensor_dtype(x)
        whole = x.detach().resolve_conj().resolve_neg().contiguous()  # a view may only say that its values are negated
        copied = whole.data_ptr() != x.data_ptr()
        return Array(whole, whole.data_ptr(), tuple(whole.shape), dtype, whole.numel(), copied)
    if type(x) is np.ndarray:
        y = x
    else:
        y = np.from_dlpack(x) if hasattr(x, "__dlpack__") and not hasattr(x, "__array__") else np.asarray(x)
    dtype = _numpy_dtype(y)
    flags = y.flags
    whole = y if flags.c_contiguous and flags.aligned else np.array(y, order="C", copy=True)
    return Array(whole, whole.__array_interface__["data"][0], whole.shape, dtype, whole.size, whole is not x)


def writable(x: Any, what: str = "out") -> Array:
    """`x` as memory to write to. TypeError or ValueError where it cannot be written as it lies."""
    if _is_tensor(x):
        dtype = _tensor_dtype(x)
        if not x.is_contiguous():
            raise ValueError(f"{what} is a tensor that is not contiguous; expected a contiguous one")
        return Array(x.detach(), x.data_ptr(), tuple(x.shape), dtype, x.numel())
    if isinstance(x, memoryview | bytearray):
        x = np.asarray(x)
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{what} is {_kind(x)}; expected a numpy array or a torch CPU tensor")
    dtype = _numpy_dtype(x)
    if not x.flags.writeable:
        raise ValueError(f"{what} is read-only; expected an array that can be written")
    if not (x.flags.c_contiguous and x.flags.aligned):
        raise ValueError(f"{what} is not contiguous; expected a C-contiguous array")
    return Array(x, x.__array_interface__["data"][0], x.shape, dtype, x.size)


def target(out: Any, like: Array, shape: tuple[int, ...]) -> Array:
    """`out` as the place for `shape` elements of the type of `like`; a new array of that kind where it is None."""
    if out is None:
        return new(like, shape)
    if out is like.owner and not like.copied and type(out) is np.ndarray and out.flags.writeable:
        array = like
    else:
        array = writable(out)
    if array.dtype is not like.dtype:
        raise TypeError(f"out is {array.dtype.label}; expected {like.dtype.label}, as the input is")
    if array.count != math.prod(shape):
        raise ValueError(f"out has {array.count} elements; expected {math.prod(shape)}, of shape {shape}")
    return array


def new(like: Array, shape: tuple[int, ...]) -> Array:
    """An uninitialized array of the kind and type of `like`."""
    if _is_tensor(like.owner):
        return writable(like.owner.new_empty(shape))
    return writable(np.empty(shape, like.owner.dtype))


def dtype_named(dtype: Any) -> np.dtype[Any]:
    """The numpy dtype that `dtype` means ("bfloat16" needs ml_dtypes); TypeError where engines do not know it."""
    if dtype == "bfloat16" or "bfloat16" in str(dtype):
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError("bfloat16 arrays need the package ml_dtypes: pip install ml_dtypes") from None
        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    found = np.dtype(dtype)
    _numpy_dtype(np.empty(0, found))
    return found


def _is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def _tensor_dtype(x: Any) -> Dtype:
    if x.device.type != "cpu" or str(x.layout) != "torch.strided":
        raise TypeError(f"got a {str(x.layout)[6:]} tensor on {x.device}; expected a dense one on the CPU")
    label = str(x.dtype).removeprefix("torch.")
    if label not in _BY_LABEL:
        raise TypeError(f"element type {label} is not supported; expected one of {SUPPORTED}")
    return _BY_LABEL[label]


def _numpy_dtype(x: np.ndarray[Any, Any]) -> Dtype:
    found = _BY_TYPE.get(x.dtype.type)
    if found is None and x.dtype.name == "bfloat16":
        found = _BY_TYPE[x.dtype.type] = Dtype.BFLOAT16
    if found is None or not x.dtype.isnative:
        raise TypeError(f"element type {x.dtype} is not supported; expected one of {SUPPORTED}")
    return found


def _kind(x: Any) -> str:
    name = type(x).__name__
    return "None" if x is None else f"an {name}" if name[0] in "aeiou" else f"a {name}"
