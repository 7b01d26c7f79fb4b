"""Control groups: how much of the machine this process's container or service may use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ringtree.machines.sysfs import Sysfs, number

MOUNTED = "sys/fs/cgroup"
UNLIMITED = 1 << 60
"""Version 1 writes about 2**63 bytes where there is no limit."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The least limits of this process's group and of those around it; None where there is none. `cpus`: CPU seconds a
    second; `memory_used_bytes`: of the group with the least memory limit."""

    cpus: float | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    processes: int | None = None


def control_group(sysfs: Sysfs) -> ControlGroup:
    """The limits by both versions of control groups. A limit that cannot be read counts as none."""
    cpus, processes = [], []
    memory: list[tuple[int, int]] = []
    for at in _folders(sysfs, ""):
        quota, _, period = sysfs.text(f"{at}/cpu.max").partition(" ")
        cpus += _cpus(number(quota), number(period))
        memory += _memory(sysfs, f"{at}/memory.max", f"{at}/memory.current")
        processes += _positive(sysfs, f"{at}/pids.max")
    for at in _folders(sysfs, "cpu"):
        cpus += _cpus(sysfs.number(f"{at}/cpu.cfs_quota_us"), sysfs.number(f"{at}/cpu.cfs_period_us"))
    for at in _folders(sysfs, "memory"):
        memory += _memory(sysfs, f"{at}/memory.limit_in_bytes", f"{at}/memory.usage_in_bytes")
    for at in _folders(sysfs, "pids"):
        processes += _positive(sysfs, f"{at}/pids.max")
    least, used = min(memory, default=(None, None))
    return ControlGroup(min(cpus, default=None), least, used, min(processes, default=None))


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


def _memory(sysfs: Sysfs, limit: str, used: str) -> list[tuple[int, int]]:
    return [(nbytes, max(sysfs.number(used), 0)) for nbytes in _positive(sysfs, limit)]


def _positive(sysfs: Sysfs, path: str) -> list[int]:
    found = sysfs.number(path)
    return [found] if 0 < found < UNLIMITED else []
