"""The memory that a file is read into, and the arrays in it."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ringtree.runtime.bootstrap.local.shared_memory import memory_available_bytes
from ringtree.storage.elements import numpy_dtype, torch_dtype
from ringtree.storage.header import Entry

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGE_PAGE_BYTES = 2 << 20
MAP_NORESERVE = 0x4000
"""Linux's flag, which Python's mmap names since 3.11."""
ALIGNMENT = 8
"""The most that an element type asks of its address."""


def private(nbytes: int, ranks_here: int) -> NDArray[np.uint8]:
    """Memory of this rank alone, in large pages where the kernel gives them. MemoryError: if the ranks of this host
    together ask for more than there is, of which the kernel would end them."""
    if nbytes * ranks_here > (room := memory_available_bytes()):
        raise MemoryError(
            f"no room for {nbytes:,} bytes on each of {ranks_here} ranks of a host: {max(room, 0):,} are available; "
            "memory='mapped' shares one copy, names= and shard= load less"
        )
    if nbytes < LARGE_PAGE_BYTES:
        return _from_page(np.empty(nbytes + mmap.PAGESIZE, np.uint8), mmap.PAGESIZE, nbytes)
    memory = mmap.mmap(-1, nbytes + LARGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return _from_page(np.frombuffer(memory, np.uint8), LARGE_PAGE_BYTES, nbytes)


def mapped(descriptor: int, nbytes: int, path: Path) -> NDArray[np.uint8]:
    """The file's own pages, which all who map them share until they write to one. The file may be longer than the
    memory: nothing is reserved for copies of its pages. OSError: if it cannot be mapped."""
    if not nbytes:
        return np.empty(0, np.uint8)
    try:
        memory = mmap.mmap(descriptor, nbytes, flags=mmap.MAP_PRIVATE | MAP_NORESERVE)
    except OSError as error:
        raise OSError(error.errno, f"cannot be mapped ({error.strerror})", str(path)) from None
    return np.frombuffer(memory, np.uint8)


def fits(nbytes: int) -> bool:
    """Whether that much of a file can be in the page cache at once."""
    return nbytes <= memory_available_bytes()


def arrays_in(
    memory: NDArray[np.uint8], entries: tuple[Entry, ...], at: Callable[[int], int], framework: str
) -> dict[str, Any]:
    """The tensors by their names. `at`: the place in `memory` of a byte of the file. A tensor whose place is no
    multiple of its elements' size is copied to one that is."""
    make = _tensor if framework == "torch" else _array
    first, found = memory.ctypes.data, {}
    for entry in entries:
        begin = at(entry.begin) if entry.end > entry.begin else 0
        aligned = not (first + begin) % min(entry.element.itemsize, ALIGNMENT)
        found[entry.name] = make(memory, begin, entry, aligned)
    return found


def _array(memory: NDArray[np.uint8], begin: int, entry: Entry, aligned: bool) -> NDArray[Any]:
    order: Literal["F", "C"] = "F" if entry.transposed else "C"
    array: NDArray[Any] = np.ndarray(entry.shape, numpy_dtype(entry.element), memory, begin, order=order)
    return array if aligned else array.copy("A")


def _tensor(memory: NDArray[np.uint8], begin: int, entry: Entry, aligned: bool) -> Any:
    """A tensor of a storage of its own bytes alone, which is what torch saves of it."""
    import torch

    raw = memory[begin : begin + entry.end - entry.begin]
    shape = entry.shape[::-1] if entry.transposed else entry.shape
    tensor = torch.from_numpy(raw if aligned else raw.copy()).view(torch_dtype(entry.element)).reshape(shape)
    return tensor.permute(*range(len(shape) - 1, -1, -1)) if entry.transposed else tensor


def _from_page(memory: NDArray[np.uint8], page_bytes: int, nbytes: int) -> NDArray[np.uint8]:
    skipped = -memory.ctypes.data % page_bytes
    return memory[skipped : skipped + nbytes]
