"""Memory that has no name: reserved before it is used, so that no later write ends the process for want of it."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator

from ringtree.runtime.limits import MOUNTED, explained, number_in

MARGIN_BYTES = 64 << 20
"""Left to others when memory is reserved."""

SHM_FOLDER = "/dev/shm"

VERSIONS = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""The mount of a control group's controller, as /proc/self/cgroup names it (version 2: none), its files with limit and
usage, and the word for pages of files that the kernel drops for others."""


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
    if (group := _control_group_room_bytes()) is not None:
        bounds.append(group)
    nbytes, of = min(bounds, default=(sys.maxsize, ""))
    return nbytes - MARGIN_BYTES, of


def _no_room(nbytes: int, what: str, why: str) -> MemoryError:
    remedy = "" if "raise it" in why else "; free memory or raise its limit"
    return MemoryError(f"no room for {nbytes} bytes of shared memory ({what}): {why}{remedy}")


def _control_group_room_bytes() -> tuple[int, str] | None:
    """The least that this process's control group, and those around it, have left, and the file with the limit. None
    where no group has one."""
    return min(_rooms(), default=None)


def _rooms() -> Iterator[tuple[int, str]]:
    with contextlib.suppress(OSError), open("/proc/self/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            for controller in {*controllers.split(",")} & {*VERSIONS}:
                mount, limit, used, dropped = VERSIONS[controller]
                inner = path.strip("/")
                while True:  # a container hides the groups around its own, so that not all of them exist
                    folder = f"{MOUNTED}{mount}/{inner}".rstrip("/")
                    with contextlib.suppress(OSError, ValueError):
                        yield number_in(f"{folder}/{limit}") - _used(folder, used, dropped), f"{folder}/{limit}"
                    if not inner:
                        break
                    inner = inner.rpartition("/")[0]


def _used(folder: str, used: str, dropped: str) -> int:
    nbytes = number_in(f"{folder}/{used}")
    with contextlib.suppress(OSError, ValueError), open(f"{folder}/memory.stat") as lines:
        nbytes -= next((int(line.split()[1]) for line in lines if line.startswith(f"{dropped} ")), 0)
    return nbytes
