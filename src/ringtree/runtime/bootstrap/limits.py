"""Limits of this process and of its control group, for the errors that come of them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

LIMITS = {
    errno.EFBIG: ("Max file size", "RLIMIT_FSIZE, which bounds shared memory,", "ulimit -f"),
    errno.ENOMEM: ("Max address space", "RLIMIT_AS", "ulimit -v"),
}
"""The limit of an error: its name in /proc, that of the system's call, and the remedy."""
MOUNTED = "/sys/fs/cgroup"
VERSIONS = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": ("/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""The mount of a control group's controller, as /proc/self/cgroup names it (version 2: none), its files with limit and
usage, and the word for pages of files that the kernel drops for others."""


def explained(error: OSError) -> str:
    """The error in words, with the limit that it comes from and the remedy where there is one."""
    why = str(error.strerror or error)
    if error.errno == errno.EMFILE:  # no file of /proc can be opened, either
        return f"{why} (RLIMIT_NOFILE is {os.sysconf('SC_OPEN_MAX')}: raise it, ulimit -n)"
    what, name, remedy = LIMITS.get(error.errno or 0, ("", "", ""))
    with contextlib.suppress(OSError, ValueError), open("/proc/self/limits") as lines:
        found = next((line[len(what) :].split()[0] for line in lines if what and line.startswith(what)), "unlimited")
        if found != "unlimited":
            return f"{why} ({name} is {found}: raise it, {remedy})"
    return why


def control_group_room_bytes() -> tuple[int, str] | None:
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
                        yield _number(f"{folder}/{limit}") - _used(folder, used, dropped), f"{folder}/{limit}"
                    if not inner:
                        break
                    inner = inner.rpartition("/")[0]


def _number(path: str) -> int:
    """ValueError: for "max", which is no limit."""
    with open(path) as file:
        return int(file.read())


def _used(folder: str, used: str, dropped: str) -> int:
    nbytes = _number(f"{folder}/{used}")
    with contextlib.suppress(OSError, ValueError), open(f"{folder}/memory.stat") as lines:
        nbytes -= next((int(line.split()[1]) for line in lines if line.startswith(f"{dropped} ")), 0)
    return nbytes
