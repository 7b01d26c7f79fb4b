"""Reads of a file's parts: by the page cache where they are in it, else by the disk straight into the buffer."""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from ringtree.storage.layout import PAGE

if TYPE_CHECKING:
    from typing_extensions import Self

CACHESTAT = 451
"""The number of the system call, on every processor (Linux 6.5)."""


SAMPLES, SAMPLE_BYTES = 8, 512


def samples(descriptor: int, begin: int, size: int) -> bytes:
    """A file's bytes at SAMPLES places from `begin` to its end, by which files with the same header differ."""
    last = max(size - SAMPLE_BYTES, begin)
    places = sorted({begin + (last - begin) * k // (SAMPLES - 1) for k in range(SAMPLES)})
    return b"".join(os.pread(descriptor, SAMPLE_BYTES, place) for place in places)


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("nbytes", ctypes.c_uint64))


class _Pages(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recent"))


class Reader:
    """Reads an open file of `size` bytes. `direct`: whether past the page cache; None: where less than half of a part
    is in it, and file system and buffer allow it."""

    def __init__(self, descriptor: int, path: Path, size: int, direct: bool | None = None) -> None:
        self._descriptor, self._path, self._size, self._wanted = descriptor, path, size, direct
        self._direct = -1
        if direct is not False:
            with suppress(OSError):  # no file system of disks
                self._direct = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_direct()

    def read(self, into: memoryview, offset: int) -> None:
        """Fills a buffer from the file's byte `offset` on, as far as the file goes. ValueError: if it became shorter;
        OSError: if it cannot be read."""
        at, end = 0, min(len(into), self._size - offset)
        while at < end:
            if direct := self._is_direct(into, offset, at):
                got = self._read_directly(into[at:], offset + at)
            if not direct or not got:
                got = os.preadv(self._descriptor, [into[at:end]], offset + at)
            if got <= 0:
                raise ValueError(
                    f"{self._path}: it ended at byte {offset + at:,} while it was read; expected {self._size:,} bytes"
                )
            at += got

    def _read_directly(self, into: memoryview, offset: int) -> int:
        try:
            return os.preadv(self._direct, [into], offset)
        except OSError:  # the reason, if it is the file's, is met by the other read, too
            self._stop_direct()
            return 0

    def _is_direct(self, into: memoryview, offset: int, at: int) -> bool:
        if self._direct < 0 or (offset + at) % PAGE or len(into) % PAGE or at % PAGE:
            return False
        return self._wanted or not self.is_cached(offset, len(into))

    def is_cached(self, offset: int, nbytes: int, whole: bool = False) -> bool:
        """Whether at least half of these bytes, or all, are in the page cache or on their way there; `not whole` where
        the kernel does not answer."""
        nbytes = min(nbytes, self._size - offset)
        cached = cached_bytes(self._descriptor, offset, nbytes)
        if cached is None:
            cached = cached_bytes_mapped(self._descriptor, offset, nbytes)
        return not whole if cached is None else cached * (1 if whole else 2) >= nbytes

    def _stop_direct(self) -> None:
        if self._direct >= 0:
            os.close(self._direct)
            self._direct = -1


def cached_bytes(descriptor: int, offset: int, nbytes: int) -> int | None:
    """The bytes of a file's pages that are in the page cache; None where the kernel has no such call."""
    pages, asked = _Pages(), _Range(offset, nbytes)
    if _libc.syscall(CACHESTAT, descriptor, ctypes.byref(asked), ctypes.byref(pages), 0):
        return None
    return int(pages.cached) * mmap.PAGESIZE


def cached_bytes_mapped(descriptor: int, offset: int, nbytes: int) -> int | None:
    """The same by mincore, on any kernel, which answers the owner of a file and who may write to it: to others all of
    it is there. None where it cannot be mapped."""
    skipped = offset % mmap.ALLOCATIONGRANULARITY
    answer = (ctypes.c_ubyte * (-(-(nbytes + skipped) // mmap.PAGESIZE)))()
    try:
        with mmap.mmap(descriptor, nbytes + skipped, access=mmap.ACCESS_READ, offset=offset - skipped) as mapped:
            view = np.frombuffer(mapped, np.uint8)
            failed = _libc.mincore(ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(view.size), answer)
            del view
    except (OSError, ValueError):
        return None
    return None if failed else int((np.frombuffer(bytes(answer), np.uint8) & 1).sum()) * mmap.PAGESIZE


_libc = ctypes.CDLL(None, use_errno=True)
