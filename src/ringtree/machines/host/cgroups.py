"""Control groups: how much of the machine this process's container or service may use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ringtree.machines.sysfs import Sysfs, number

MOUNTED = "sys/fs/cgroup"
UNLIMITED = 1 << 60
"""Version 1 writes about 2**63 bytes where there is no limit."""
MEMORY_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Names by controller (version 2: none): the files with limit and usage, and memory.stat's word for pages of files that
the kernel drops for others."""


class MemoryRoom(NamedTuple):
    """The memory that a group leaves, of its limit."""

    free_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The least limits of this process's group and of those around it; None where there is none. `cpus`: CPU seconds a
    second; `memory`: of the group that has the least left."""

    cpus: float | None = None
    memory: MemoryRoom | None = None
    processes: int | None = None


def control_group(sysfs: Sysfs) -> ControlGroup:
    """The limits by both versions of control groups. A limit that cannot be read counts as none."""
    cpus, processes = [], []
    for at in _folders(sysfs, ""):
        quota, _, period = sysfs.text(f"{at}/cpu.max").partition(" ")
        cpus += _cpus(number(quota), number(period))
        processes += _positive(sysfs, f"{at}/pids.max")
    for at in _folders(sysfs, "cpu"):
        cpus += _cpus(sysfs.number(f"{at}/cpu.cfs_quota_us"), sysfs.number(f"{at}/cpu.cfs_period_us"))
    for at in _folders(sysfs, "pids"):
        processes += _positive(sysfs, f"{at}/pids.max")
    room = min(_rooms(sysfs), default=None)
    return ControlGroup(min(cpus, default=None), room, min(processes, default=None))


def _rooms(sysfs: Sysfs) -> Iterator[MemoryRoom]:
    for controller, (limit, used, dropped) in MEMORY_FILES.items():
        for at in _folders(sysfs, controller):
            for nbytes in _positive(sysfs, f"{at}/{limit}"):
                lines = map(str.split, sysfs.text(f"{at}/memory.stat").splitlines())
                cache = next((number(words[1]) for words in lines if words[:1] == [dropped] and len(words) == 2), 0)
                taken = max(sysfs.number(f"{at}/{used}"), 0) - max(cache, 0)
                yield MemoryRoom(max(nbytes - max(taken, 0), 0), nbytes)


def _folders(sysfs: Sysfs, controller: str) -> Iterator[str]:
    """The folders of this process's group and of those around it, innermost first; of version 2 for "". The group's
    path is the machine's own where a container does not hide it, so that not all of them exist."""
    for line in sysfs.text("proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            mounts = (f"{MOUNTED}/{name}" for name in (controllers, controller) if name)
            mounted = next(filter(sysfs.folder, mounts), MOUNTED)
            inner = path.strip("/")
            while inner:
                yield f"{mounted}/{inner}"
                inner = inner.rpartition("/")[0]
            yield mounted


def _cpus(quota_us: int, period_us: int) -> list[float]:
    return [quota_us / period_us] if quota_us > 0 and period_us > 0 else []


def _positive(sysfs: Sysfs, path: str) -> list[int]:
    found = sysfs.number(path)
    return [found] if 0 < found < UNLIMITED else []
