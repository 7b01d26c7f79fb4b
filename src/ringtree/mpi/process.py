"""Calls about the process, not a communicator: beginning and end, clock, names, versions."""

from __future__ import annotations

import platform
import time

import numpy as np

import ringtree
from ringtree.mpi.comm import COMM_SELF, COMM_WORLD, Comm
from ringtree.mpi.constants import SUBVERSION, THREAD_MULTIPLE, VERSION
from ringtree.mpi.errors import ERR_ARG, Exception
from ringtree.mpi.types.memory import Memory, as_memory

Wtime = time.perf_counter
"""Seconds; the same clock in all ranks of a machine."""

_attached: object = None


def Wtick() -> float:
    """Resolution of `Wtime`, in seconds."""
    return time.get_clock_info("perf_counter").resolution


def Init() -> None:
    """Joins the world, which otherwise happens at its first use."""
    COMM_WORLD.Get_rank()


def Init_thread(required: int = THREAD_MULTIPLE) -> int:
    """Joins the world; returns THREAD_MULTIPLE for every `required`."""
    Init()
    return THREAD_MULTIPLE


def Finalize() -> None:
    """Leaves the world; at exit this happens by itself."""
    for comm in (COMM_SELF, COMM_WORLD):
        if comm:
            comm.Free()
    Comm._finalized = True


def Is_initialized() -> bool:
    """Whether this process has joined the group, now or before Finalize."""
    return Comm._finalized or "_comm" in vars(COMM_WORLD)


def Is_finalized() -> bool:
    """Whether Finalize was called."""
    return Comm._finalized


def Query_thread() -> int:
    """THREAD_MULTIPLE: every thread may make calls."""
    return THREAD_MULTIPLE


def Is_thread_main() -> bool:
    """Whether the caller is Python's main thread."""
    import threading

    return threading.current_thread() is threading.main_thread()


def Alloc_mem(size: int, info: object = None) -> Memory:
    """Returns zeroed memory of `size` bytes; `info` is ignored."""
    if size < 0:
        raise Exception(ERR_ARG, f"memory of {size} bytes; expected 0 or more")
    return as_memory(np.zeros(size, np.uint8))


def Free_mem(mem: Memory) -> None:
    """Does nothing: the memory is Python's own, freed without references."""


def Attach_buffer(buf: object) -> None:
    """Keeps `buf` for Detach_buffer; Bsend needs none, for it keeps a copy by itself."""
    global _attached
    _attached = buf


def Detach_buffer() -> object:
    """The attached buffer, or None."""
    return _attached


def Aint_add(base: int, disp: int) -> int:
    """The address `disp` bytes behind another."""
    return base + disp


def Aint_diff(addr1: int, addr2: int) -> int:
    """The bytes from the second address to the first."""
    return addr1 - addr2


def Pcontrol(level: int) -> None:
    """Does nothing: there is no profiler behind the names."""


def Get_processor_name() -> str:
    """The host's name."""
    return platform.node()


def Get_version() -> tuple[int, int]:
    """The MPI standard that the names here are of."""
    return VERSION, SUBVERSION


def Get_library_version() -> str:
    """The library's name and version, as text."""
    return f"ringtree {ringtree.__version__}"


def get_vendor() -> tuple[str, tuple[int, ...]]:
    """The library's name, and its version as three numbers."""
    numbers = [int(part) for part in ringtree.__version__.split(".")[:3] if part.isdigit()]
    return "ringtree", tuple((numbers + [0, 0, 0])[:3])
