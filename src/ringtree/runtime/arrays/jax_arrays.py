"""JAX's arrays in a device's memory (https://docs.jax.dev/en/latest/jax.dlpack.html). They are for reading alone, and
JAX computes on streams of its own, which wait, and are waited for, by the DLPack protocol."""

from __future__ import annotations

import sys
from typing import Any

from ringtree.runtime.engines.device.driver import call

CUDA = 2
"""DLPack's number for CUDA devices."""
LEGACY_STREAM = 1
"""DLPack's number for the stream that CUDA's driver numbers 0."""


def is_jax(x: Any) -> bool:
    """Whether `x` is an array of JAX's in the memory of CUDA devices."""
    jax: Any = sys.modules.get("jax")
    if jax is None or not isinstance(x, getattr(jax, "Array", ())) or isinstance(x, jax.core.Tracer):
        return False
    of: Any = x
    return any(device.platform in ("gpu", "cuda") for device in of.devices())


def device_number(x: Any, what: str) -> int:
    """The number of an array's device. TypeError where it is cut among several."""
    if len(x.devices()) != 1:
        raise TypeError(f"{what} is cut among {len(x.devices())} devices; expected an array on one: pass its shards")
    return int(next(iter(x.devices())).local_hardware_id)


def address(x: Any, stream: int) -> int:
    """The address of an array that JAX has computed when `stream` goes on."""
    x.__dlpack__(stream=stream or LEGACY_STREAM)
    return int(x.unsafe_buffer_pointer())


class Blank:
    """An array that a call writes before JAX has it. `like`: an array of JAX's of the type and on the device, which
    stays as long; `stream`: that of the call."""

    def __init__(self, like: Any, shape: tuple[int, ...], stream: int) -> None:
        jax = sys.modules["jax"]
        self.shape, self.dtype, self._stream = shape, like.dtype, stream or LEGACY_STREAM
        with jax.default_device(next(iter(like.devices()))):
            self._array = jax.numpy.empty(shape, like.dtype)
        self._kept = like.__dlpack__(stream=self._stream)  # JAX might hand its memory on while the call reads it
        self.address, self.device = address(self._array, stream), device_number(like, "the array")

    def delivered(self) -> Any:
        """The memory as an array of JAX's that waits for the call, which has begun."""
        return sys.modules["jax"].dlpack.from_dlpack(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        if stream is not None and stream != self._stream:
            event = call("cuEventCreate", 2)
            call("cuEventRecord", event, 0 if self._stream == LEGACY_STREAM else self._stream)
            call("cuStreamWaitEvent", 0 if stream == LEGACY_STREAM else stream, event, 0)
            call("cuEventDestroy", event)
        return self._array.__dlpack__(**options)
