"""Memory that has no name: reserved before it is used, so that no later write ends the process for want of it."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path

from ringtree.machines.host.cgroups import memory_room
from ringtree.machines.sysfs import Sysfs
from ringtree.runtime.limits import explained

MARGIN_BYTES = 64 << 20
"""Left to others when memory is reserved."""

SHM_FOLDER = "/dev/shm"


def reserve(nbytes: int, what: str, whole: int = 0, needed: int = 0) -> int:
    """A memfd whose first `nbytes` exist: a later write cannot end the process for want of memory. It is `whole` bytes
    long where that is more. MemoryError: if there is no room for `nbytes`, or for `needed` where that is more."""
    needed = max(nbytes, needed)
    room, of = _available()
    if needed > room:
        raise _no_room(needed, what, f"by {of} {max(room, 0)} are available")
    fd, has_limit = _without_a_name()
    nbytes = needed if has_limit else nbytes  # a member that finds it full later would fail alone
    try:
        os.ftruncate(fd, max(nbytes, whole))
        if nbytes:
            os.posix_fallocate(fd, 0, nbytes)
    except OSError as error:
        os.close(fd)
        if error.errno in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            of_folder = has_limit and error.errno == errno.ENOSPC
            why = f"{SHM_FOLDER}, which stands in for memfd_create, is full" if of_folder else explained(error)
            raise _no_room(max(nbytes, whole), what, why) from None
        raise
    return fd


def _without_a_name() -> tuple[int, bool]:
    """A memfd; where a filter of system calls refuses it, a file of /dev/shm that no folder lists. Whether it counts
    against the size of /dev/shm."""
    try:
        return os.memfd_create("ringtree", os.MFD_CLOEXEC), False
    except OSError as refused:
        if refused.errno in (errno.EMFILE, errno.ENFILE):
            raise OSError(refused.errno, f"no shared memory: {explained(refused)}") from None
        try:
            return os.open(SHM_FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), True
        except OSError as error:
            raise OSError(
                f"no shared memory: memfd_create was refused ({refused.strerror}), and so was a file in "
                f"{SHM_FOLDER} ({error.strerror}); let the container's seccomp profile allow memfd_create"
            ) from None


def memory_available_bytes() -> int:
    """Bytes that this process may still take, less a margin for others. Nothing else refuses a memfd that is too large:
    where memory itself is the limit, its pages are handed out until the kernel ends processes."""
    return _available()[0]


def _available() -> tuple[int, str]:
    """memory_available_bytes, and what bounds it."""
    bounds = []
    with contextlib.suppress(OSError, StopIteration, ValueError):
        with open("/proc/meminfo") as lines:
            line = next(line for line in lines if line.startswith("MemAvailable:"))
        bounds.append((int(line.split()[1]) * 1024, "this machine (MemAvailable)"))
    if (room := memory_room(Sysfs(Path("/")))) is not None:
        bounds.append((room.free_bytes, f"/{room.file}"))
    nbytes, of = min(bounds, default=(sys.maxsize, ""))
    return nbytes - MARGIN_BYTES, of


def _no_room(nbytes: int, what: str, why: str) -> MemoryError:
    remedy = "" if "raise it" in why else "; free memory or raise its limit"
    return MemoryError(f"no room for {nbytes} bytes of shared memory ({what}): {why}{remedy}")
