"""CUDA's driver by cuda-bindings, loaded late, with its errors as exceptions."""

from __future__ import annotations

from ctypes import CDLL, c_void_p, cast
from functools import cache
from typing import Any

INSTALL = "pip install cuda-bindings"
NO_LIBRARY = (
    "no CUDA driver: libcuda.so.1 cannot be loaded; expected NVIDIA's driver on this host, and in a container its GPUs "
    "(docker run --gpus all)"
)


class CudaError(RuntimeError):
    """A call of CUDA's driver failed. `name`: the error's."""

    def __init__(self, function: str, name: str) -> None:
        super().__init__(f"CUDA: {function} failed: {name}")
        self.name = name


@cache
def driver() -> Any:
    """The driver's functions, initialized. RuntimeError, in one line with the remedy: where cuda-bindings, the driver
    or a device is missing."""
    try:
        from cuda.bindings import driver as found
    except ImportError as error:
        raise RuntimeError(f"CUDA devices need cuda-bindings ({error}): {INSTALL}") from None
    try:
        (result,) = found.cuInit(0)
    except Exception:  # noqa: BLE001  # of a class of its own where libcuda.so.1 is not found
        raise RuntimeError(NO_LIBRARY) from None
    if int(result):
        raise RuntimeError(f"the CUDA driver does not start: {result.name}; expected what nvidia-smi lists")
    return found


def call(function: str, *arguments: Any) -> Any:
    """The answer of a function of the driver: nothing, a value, or several. CudaError where it fails."""
    result, *answer = getattr(driver(), function)(*arguments)
    if int(result):
        raise CudaError(function, result.name)
    return answer[0] if len(answer) == 1 else tuple(answer)


def address_of(function: str) -> int:
    """The address of a function of the driver's library, for native calls."""
    return int(cast(getattr(CDLL("libcuda.so.1"), function), c_void_p).value or 0)


def attribute(device: Any, name: str) -> int:
    """An attribute of a device, by its name without CU_DEVICE_ATTRIBUTE_; 0 where this driver knows none."""
    known = getattr(driver().CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
    if known is None:
        return 0
    try:
        return int(call("cuDeviceGetAttribute", known, device))
    except CudaError:
        return 0
