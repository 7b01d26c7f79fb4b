"""Arrays in the memory of CUDA devices, other than torch's: JAX's, and whatever has __cuda_array_interface__, as CuPy's
and Numba's arrays have it (https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html)."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from ringtree.runtime.arrays import jax_arrays
from ringtree.runtime.arrays.jax_arrays import is_jax


class DeviceArray(NamedTuple):
    """An array as its memory. `owner`: the object whose memory it is; `copied`: not the caller's own; `label`: the
    element type's name; `device`: the number of its device."""

    owner: Any
    address: int
    shape: tuple[int, ...]
    label: str
    copied: bool
    device: int


def is_array(x: Any) -> bool:
    """Whether `x` is in a device's memory."""
    if isinstance(x, np.ndarray):
        return False
    if isinstance(x, jax_arrays.Blank) or is_jax(x):
        return True
    # An array of JAX's on the host has the name in its type alone.
    return hasattr(type(x), "__cuda_array_interface__") and hasattr(x, "__cuda_array_interface__")


def look(x: Any, what: str, writes: bool) -> DeviceArray:
    """`x` as its memory. It is copied where it is not contiguous, unless `writes`: then that is a ValueError, as a
    read-only array is."""
    if isinstance(x, jax_arrays.Blank):
        return DeviceArray(x, x.address, x.shape, str(x.dtype), False, x.device)
    if is_jax(x):
        if writes:
            raise ValueError(f"{what} is an array of JAX's, which is read-only; expected one that can be written")
        device = jax_arrays.device_number(x, what)
        address = jax_arrays.address(x, current_stream(device))
        return DeviceArray(x, address, tuple(x.shape), str(x.dtype), False, device)
    seen = x.__cuda_array_interface__
    copied = False
    if not _contiguous(seen):
        if writes:
            raise ValueError(f"{what} is not contiguous; expected a C-contiguous array")
        if not hasattr(x, "copy"):
            raise ValueError(f"{what} is a {type(x).__name__} that is not contiguous; expected a contiguous one")
        x, copied = x.copy(), True
        seen = x.__cuda_array_interface__
    address, read_only = seen["data"]
    if writes and read_only:
        raise ValueError(f"{what} is read-only; expected an array that can be written")
    label = str(getattr(x, "dtype", None) or np.dtype(seen["typestr"]))
    return DeviceArray(x, int(address), tuple(seen["shape"]), label, copied, _number(x))


def blank(like: Any, shape: tuple[int, ...]) -> Any:
    """An uninitialized array of that shape, of the type and on the device of `like`. TypeError where its library makes
    none that others may write."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(like, cupy.ndarray):
        with like.device:
            return cupy.empty(shape, like.dtype)
    if is_jax(like):
        return jax_arrays.Blank(like, shape, current_stream(jax_arrays.device_number(like, "the array")))
    made = getattr(like, "blank", None)
    if made is None:
        raise TypeError(f"a {type(like).__name__} has no way to make one that can be written: give out=")
    return made(shape)


def delivered(result: Any) -> Any:
    """The result of a call that has begun, for its caller: itself, or JAX's array of it."""
    return result.delivered() if isinstance(result, jax_arrays.Blank) else result


def current_stream(device: int) -> int:
    """The stream of the caller's work on a device: torch's, else CuPy's, else the default one, 0."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch._C._cuda_getCurrentRawStream(device))
    return int(cupy.cuda.get_current_stream().ptr) if cupy is not None else 0


def _contiguous(seen: dict[str, Any]) -> bool:
    strides, step = seen.get("strides"), np.dtype(seen["typestr"]).itemsize
    if strides is None:
        return True
    for length, stride in zip(reversed(seen["shape"]), reversed(strides), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True


def _number(x: Any) -> int:
    """The number of the array's device."""
    device = getattr(x, "device", 0)
    device = getattr(device, "id", device)
    return int(device) if isinstance(device, int) else 0


class DeviceMemory:
    """Memory of a device as an array: what CuPy, Numba and torch take by __cuda_array_interface__. `keeps`: whatever
    has to live as long."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: str, device: int, keeps: Any) -> None:
        self.address, self.shape, self.dtype, self.device, self._keeps = address, shape, dtype, device, keeps

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as CuPy, Numba and torch take it; types that numpy has not are bits."""
        try:
            typestr = np.dtype(self.dtype).str
        except TypeError:
            typestr = {1: "|u1", 2: "<u2"}[2 if self.dtype == "bfloat16" else 1]
        return {"shape": self.shape, "typestr": typestr, "data": (self.address, False), "version": 3}


def in_library(memory: DeviceMemory) -> Any:
    """The memory as an array of the library that the program uses: a torch tensor, else CuPy's array, else itself."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None:
        raw = torch.as_tensor(memory, device=f"cuda:{memory.device}")
        return raw.view(getattr(torch, memory.dtype))
    return cupy.asarray(memory) if cupy is not None else memory
