"""Memory that all ranks of a group share, as methods of the communicator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.runtime import arrays
from ringtree.runtime.communicator import windows
from ringtree.runtime.communicator.arguments import int64, seconds, whole
from ringtree.runtime.communicator.collectives.collectives import Collectives
from ringtree.runtime.communicator.composite import CompositeCall

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from ringtree.runtime.arrays import Array

SIGNALS = 8
"""Signals of a pair of ranks in each direction."""


class OneSided(Collectives):
    """Arrays that peers reach while this rank does something else.

    A *window* is an array of this communicator's `empty`, or a contiguous slice of one; it stands for the same slice of
    every rank's. Inside a host only `wait_signal` waits: signals (or collectives) order the accesses. To another host
    a `put` waits while 4 MiB of puts are on their way, and a `get` until its bytes are here; the other rank need make
    no call meanwhile. TimedOut of either leaves the group usable.
    """

    _windows: list[windows.Window]  # in the order of their addresses

    def empty(
        self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32, *, device: str | None = None
    ) -> NDArray[Any] | Any:
        """A zeroed array [*shape] in memory that peers read in place. It is the group's: the memory is kept until the
        communicator is closed and the array is gone. Mismatch: if the ranks ask for different arrays. OSError: if there
        is no room for the memory; MemoryError, on every rank: if one of them cannot map it. The group goes on after
        both, and what other ranks had mapped is kept until it is closed. `device="cuda"`: in the memory of each rank's
        current GPU, as a torch tensor where torch is loaded, else as CuPy's array."""
        lengths = tuple(whole(n, "shape") for n in (shape if isinstance(shape, tuple | list) else (shape,)))
        wanted = arrays.dtype_named(dtype)
        with CompositeCall(self._fail, "empty", alike=(Exception,)):
            self._agreed(windows.request(lengths, wanted))  # a rank that died or asks for else is noticed here
            if device is not None:
                return self._on_device(lengths, str(getattr(wanted, "name", wanted)), wanted.itemsize, device)
            self._made += 1
            key = f"{self._parameters.key}/{self._made}"
            number, array = windows.allocate(self._endpoint, self._parameters, key, lengths, wanted)
            windows.insert(self._windows, array, number)
            return array

    def _on_device(self, shape: tuple[int, ...], label: str, itemsize: int, device: str) -> Any:
        if device != "cuda":
            raise ValueError(f"device is {device!r}; expected cuda, or None for the host's memory")
        endpoint: Any = self.beside("cuda", engine="cuda")._endpoint
        nbytes = max(math.prod(shape) * itemsize, 1)
        memory = arrays.DeviceMemory(endpoint.symmetric(nbytes), shape, label, endpoint.device, endpoint)
        return arrays.in_library(memory)

    def put(self, x: Any, dst: int, window: Any, signal: int | None = None) -> None:
        """Writes `x` to rank `dst`'s copy of `window`. With `signal`, an index 0..7, then sends that signal: when `dst`
        has waited for it, it sees the data. Of two puts to the same bytes either may stay, unless `dst` has signalled
        in between that the first is there, and this rank has waited for that. TypeError, ValueError: if `x` is of
        another type or size than `window`, or `window` no memory of this group's `empty`."""
        peer, index = self._peer(dst), None if signal is None else _index(signal)
        there, number, offset = self._found(window)
        here = arrays.readable(x)
        _alike(here, there, "x")
        self._endpoint.put(number, offset, peer, here.address, here.nbytes)
        if index is not None:
            self._endpoint.signal(peer, index)

    def get(self, window: Any, src: int, out: Any = None) -> Any:
        """Rank `src`'s copy of `window`, in a new array of its shape or in `out`. Errors as in put."""
        peer = self._peer(src)
        there, number, offset = self._found(window)
        here = arrays.new(there, there.shape) if out is None else arrays.writable(out)
        _alike(here, there, "out")
        self._endpoint.get(number, offset, peer, here.address, here.nbytes)
        return here.owner if out is None else out

    def signal(self, dst: int, index: int = 0) -> None:
        """Raises signal `index` at rank `dst`, without data. Each pair of ranks has 8 counted signals a direction."""
        self._endpoint.signal(self._peer(dst), _index(index))

    def wait_signal(self, src: int, count: int = 1, index: int = 0, timeout: float | None = None) -> None:
        """Waits until rank `src` has sent `count` more signals of that index than were waited for before; what `src`
        wrote before them can then be read. TimedOut after `timeout` seconds (default: the group's); the signals that
        came by then are still there to be waited for."""
        wanted = int64(count, "count")
        if wanted < 1:
            raise ValueError(f"{wanted} signals to wait for: expected at least 1")
        timeout_s = self._parameters.timeout_s if timeout is None else seconds(timeout)
        if timeout is not None and float(timeout) < 0:
            raise ValueError(f"timeout is {timeout}: expected seconds, at least 0")
        self._endpoint.wait_signal(self._peer(src), _index(index), wanted, timeout_s)

    def _found(self, window: Any) -> tuple[Array, int, int]:
        """A window as it lies here, its number, and its offset in bytes from where that begins."""
        array = arrays.writable(window, "window")
        begin, end, number = windows.last_from(self._windows, array.address)
        if not begin <= array.address <= array.address + array.nbytes <= end:
            raise ValueError("window is no memory of this group's: expected an array of its empty(), or a slice of one")
        return array, number, array.address - begin

    def _peer(self, rank: int) -> int:
        number = whole(rank, "rank")
        if not 0 <= number < self.size:
            raise ValueError(f"no rank {number} to reach: expected 0..{self.size - 1}")
        return number


def _index(signal: int) -> int:
    number = whole(signal, "signal")
    if not 0 <= number < SIGNALS:
        raise ValueError(f"signal {number}: expected 0..{SIGNALS - 1}")
    return number


def _alike(array: Array, window: Array, name: str) -> None:
    if array.dtype is not window.dtype:
        raise TypeError(f"{name} is {array.dtype.label}; expected {window.dtype.label}, as the window is")
    if array.count != window.count:
        raise ValueError(f"{name} has {array.count} elements; expected {window.count}, as the window has")
