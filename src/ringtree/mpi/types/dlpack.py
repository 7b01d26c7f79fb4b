"""Memory that a DLPack capsule describes, as a numpy array that can be written.

numpy.from_dlpack makes arrays read-only where the capsule is of the protocol before 1.0, which had no word for
it; there a receive buffer would be none. The capsule is left as it is, so that it frees its tensor when the array is
gone.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CPU = (1, 3)  # kDLCPU, kDLCUDAHost: memory that this process reads
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class _Owned:
    """An array interface over a capsule's memory, which keeps the capsule."""

    def __init__(self, capsule: Any, interface: dict[str, Any]) -> None:
        self._capsule = capsule
        self.__array_interface__ = interface


def from_dlpack(x: Any) -> NDArray[Any]:
    """The memory of `x`, which has `__dlpack__`, without a copy. BufferError: if it lies on a device, or its elements
    are none of numpy's."""
    device, _ = x.__dlpack_device__()
    if device not in _CPU:
        raise BufferError(f"a tensor lies on a device of DLPack's kind {int(device)}; expected memory of the host")
    capsule = x.__dlpack__()
    tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    kind = _KINDS.get(tensor.code)
    if kind == "f" and tensor.lanes == 2:
        kind = "c"  # a pair of floats: a complex of more bits than a DLPack type can say
    elif tensor.lanes != 1:
        kind = None
    if kind is None:
        raise BufferError(f"a tensor's elements are of DLPack's kind {tensor.code}, which numpy has not")
    dtype = np.dtype(f"{kind}{tensor.bits * tensor.lanes // 8}")
    shape = tuple(tensor.shape[: tensor.ndim])
    if not math.prod(shape):
        return np.empty(shape, dtype)
    interface = {"version": 3, "shape": shape, "typestr": dtype.str, "data": (tensor.data + tensor.byte_offset, False)}
    if tensor.strides:
        interface["strides"] = tuple(step * dtype.itemsize for step in tensor.strides[: tensor.ndim])
    return np.asarray(_Owned(capsule, interface))
