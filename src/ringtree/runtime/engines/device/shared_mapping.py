"""Shared memory that is mapped without a descriptor, of which Python's mmap keeps one each."""

from __future__ import annotations

import mmap
import os
import weakref
from ctypes import CDLL, c_int, c_long, c_size_t, c_void_p, get_errno

FAILED = c_void_p(-1).value


def map_shared(fd: int, nbytes: int, owner: object) -> int:
    """The address of a file's first bytes, to be read and written; given back when the owner is gone. OSError: where
    there is no room."""
    library = CDLL(None, use_errno=True)
    library.mmap.restype = c_void_p
    library.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, c_long]
    library.munmap.argtypes = [c_void_p, c_size_t]
    address = library.mmap(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address == FAILED:
        raise OSError(get_errno(), f"no room for {nbytes} bytes of shared memory: {os.strerror(get_errno())}")
    weakref.finalize(owner, library.munmap, address, nbytes).atexit = False  # threads may still be in calls
    return int(address)
