"""Anything that has memory, as a flat numpy array over it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.mpi.constants import BOTTOM
from ringtree.mpi.types.dlpack import from_dlpack

NumpyArray = NDArray[Any]
OCTET = np.dtype("u1")
NOTHING = np.empty(0, OCTET)
frombuffer = np.frombuffer
UNFIT = (AttributeError, BufferError, TypeError, ValueError)  # no buffer, or too short, or not contiguous


def flat(data: Any, dtype: np.dtype[Any] | None = None) -> NumpyArray:
    """All of `data` in one dimension, over the same memory; as elements of `dtype`, else of its own type. TypeError: of
    Python's objects, and of elements in another order of bytes that `dtype` does not take for what they are here."""
    if data is None:
        return np.empty(0, dtype or OCTET)
    if type(data) is not np.ndarray:
        data = _exported(data, dtype)
    if not moves(data.dtype):
        _check(data.dtype, dtype is not None)
    if not data.flags.c_contiguous:
        data = data.T
        if not data.flags.c_contiguous:
            raise ValueError("a buffer is not contiguous; expected a contiguous array")
    line: NumpyArray = data.reshape(-1)
    if dtype is None or line.dtype == dtype:
        return line
    octets = line.view(OCTET) if line.size else NOTHING
    return octets[: octets.size // dtype.itemsize * dtype.itemsize].view(dtype)


def moves(dtype: np.dtype[Any]) -> bool:
    """Whether elements mean the same in another process of this machine's kind."""
    return dtype.isnative and not dtype.hasobject


def _check(dtype: np.dtype[Any], is_given: bool) -> None:
    """TypeError: unless elements of that dtype may move, or `is_given`, what their bytes are taken for."""
    if dtype.hasobject:
        raise TypeError(
            f"elements of {dtype} are addresses of this process; expected numbers, or the call in lower case, which "
            "pickles objects"
        )
    if not is_given:
        remedy = "x.astype(x.dtype.newbyteorder('='))"
        raise TypeError(f"elements of {dtype} are not in this machine's order of bytes; expected {remedy}")


def _exported(data: Any, dtype: np.dtype[Any] | None) -> NumpyArray:
    if isinstance(data, list | tuple | dict | str | int | float) and not isinstance(data, np.generic):
        raise TypeError(f"{type(data).__name__} is no buffer; expected an array, or anything with the buffer protocol")
    try:
        if dtype is not None and "O" not in memoryview(data).format:
            return frombuffer(data, dtype)
    except UNFIT:
        pass
    try:
        return np.asarray(memoryview(data))
    except UNFIT:
        pass
    if hasattr(data, "__array__"):
        return np.asarray(data)  # a torch tensor on the CPU shares its memory so
    if hasattr(data, "__dlpack__"):
        return from_dlpack(data)
    raise TypeError(f"{type(data).__name__} is no buffer; expected an array, or anything with the buffer protocol")


class Memory(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes that ringtree.mpi hands out: `memory[:] = 0` and a buffer's names, as of mpi4py's class `buffer`.
    `Memory(x)`: those of `x`, without a copy."""

    format = "B"

    def __new__(cls, buf: Any = None) -> Memory:
        """The bytes of `buf`, of which there are none by default."""
        return as_memory(flat(buf, OCTET))

    @staticmethod
    def allocate(nbytes: int, clear: bool = False) -> Memory:
        """New bytes, zeroed."""
        return as_memory(np.zeros(nbytes, OCTET))

    @staticmethod
    def frombuffer(obj: Any, readonly: bool = False) -> Memory:
        """The bytes of anything that has memory, without a copy."""
        found = Memory(obj)
        return found.toreadonly() if readonly else found

    @staticmethod
    def fromaddress(address: int, nbytes: int, readonly: bool = False) -> Memory:
        """The bytes at an address, which the caller knows to be memory of this process."""
        return Memory.frombuffer(memory_at(address, nbytes), readonly)

    def cast(self, format: str, *shape: Any) -> Any:
        """A memoryview of other elements."""
        view: Any = memoryview(self)  # type: ignore[arg-type]
        return view.cast(format, *shape)

    def toreadonly(self) -> Memory:
        """The same bytes, not to be written by the result."""
        found = self.view()
        found.flags.writeable = False
        return found

    def release(self) -> None:
        """Does nothing: the memory is freed without references."""

    @property
    def readonly(self) -> bool:
        """Whether the bytes cannot be written."""
        return not self.flags.writeable

    @property
    def address(self) -> int:
        """The address of the first byte; 0 where there is none."""
        return address_of(self) if self.size else 0

    def __bool__(self) -> bool:
        return bool(self.size)


OCTETS = (bytes, bytearray, Memory)
"""The types of buffers that have nothing but bytes."""


def as_memory(line: NumpyArray) -> Memory:
    """Bytes as Memory, without a copy."""
    return line.view(Memory)


def memory_at(address: int, nbytes: int) -> NDArray[np.uint8]:
    """The bytes at an address, which the caller knows to be memory of this process."""
    memory: Any = (ctypes.c_char * nbytes).from_address(address) if nbytes else b""
    return np.frombuffer(memory, np.uint8)


def address_of(location: Any) -> int:
    """The address of the first byte of anything that has memory; 0 for BOTTOM."""
    if location is BOTTOM:
        return 0
    line = flat(location, OCTET)
    return int(line.__array_interface__["data"][0]) if line.size else 0
