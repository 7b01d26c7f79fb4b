"""Tensors in a GPU's memory: read there by kvikio (GPUDirect Storage), or copied there from the host's.

kvikio reads for one rank alone. Where all ranks want the same bytes, that would read each as often as there are ranks:
then the host's memory comes first, and each byte is read once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringtree.storage.elements import torch_dtype
from ringtree.storage.gathering import Progress, rounds
from ringtree.storage.header import Entry
from ringtree.storage.layout import FileLayout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def check_device(device: str, memory: str, framework: str) -> None:
    """ValueError: unless torch has that device, and the other arguments go with one."""
    if framework != "torch" or memory != "private":
        raise ValueError(f"device is {device!r}; expected framework='torch' and memory='private' with it")
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, AttributeError) as error:  # the last two: a torch built without it
        raise ValueError(f"device is {device!r}, which torch does not reach: {str(error).splitlines()[0]}") from None


def reads_directly() -> bool:
    """Whether kvikio is there, and the driver, without which it reads nothing."""
    if not find_spec("kvikio"):
        return False
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def read_into(device: str, path: Path, size: int, layout: FileLayout, progress: Progress) -> Any:
    """This rank's wanted parts of the file, as bytes in the device's memory, laid out as `layout`. OSError, ValueError:
    if the file cannot be read, or became shorter."""
    import kvikio
    import torch

    held = torch.empty(layout.nbytes, dtype=torch.uint8, device=device)
    try:
        with kvikio.CuFile(str(path), "r") as file:
            for begin, piece in rounds(layout.nbytes, 1):
                for offset, nbytes, at in layout.reads(begin, begin + piece):
                    wanted = min(nbytes, size - offset)
                    if (got := file.read(held[at : at + wanted], size=wanted, file_offset=offset)) != wanted:
                        raise ValueError(f"{path}: {got:,} bytes at byte {offset:,}; expected {wanted:,}")
                if progress is not None:
                    progress(min(begin + piece, layout.nbytes), layout.nbytes)
    except RuntimeError as error:  # kvikio's own
        raise OSError(f"{path}: cannot be read by kvikio: {str(error).splitlines()[0]}") from None
    return held


def copied(memory: NDArray[np.uint8], device: str) -> Any:
    """The bytes in the device's memory."""
    import torch

    return torch.from_numpy(memory).to(device)


def tensors_in(held: Any, entries: tuple[Entry, ...], at: Callable[[int], int]) -> dict[str, Any]:
    """The tensors by their names, in bytes that torch holds."""
    found = {}
    for entry in entries:
        begin = at(entry.begin) if entry.end > entry.begin else 0
        raw = held[begin : begin + entry.end - entry.begin]
        if raw.storage_offset() % entry.element.itemsize:
            raw = raw.clone()
        shape = entry.shape[::-1] if entry.transposed else entry.shape
        tensor = raw.view(torch_dtype(entry.element)).reshape(shape)
        found[entry.name] = tensor.permute(*range(len(shape) - 1, -1, -1)) if entry.transposed else tensor
    return found
