"""The part of this host's cores and memory that this process may use, and its limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from math import inf, isinf

from ringtree.bench.machine import usable_cores
from ringtree.cli.doctor.check import Check, CheckedHost, State
from ringtree.ir.units import count, size
from ringtree.machines.host.cgroups import control_group
from ringtree.machines.host.process_limits import FILE, ProcessLimit, process_limits
from ringtree.machines.host.rdma import rdma_ports
from ringtree.runtime.bootstrap.environment import launched
from ringtree.runtime.processor import cpu

SECTION = "resources"
LEAST_MEMORY_BYTES, FEW_MEMORY_BYTES = 256 << 20, 1 << 30
DOCKERS_SHM_BYTES = 64 << 20
FEW_DESCRIPTORS, FEW_PROCESSES = 1024, 512
ENOUGH_LOCKED_BYTES = 1 << 30
BUSY = 2.0
"""Processes a core, above which a host is busy."""


def cores(host: CheckedHost) -> Iterator[Check]:
    """Cores, and the CPU quota of the control group."""
    usable, online, quota = _usable_cores(host), os.cpu_count() or 1, control_group(host.sysfs).cpus
    words = f"{usable} of {count(online, 'core')} usable, {cpu(host.root)}"
    figures = {"usable_cores": usable, "online_cores": online, "quota_cores": quota}
    if quota is not None and quota < usable:
        words += f"; a control group allows {quota:g} of them at a time: more ranks than that wait for each other"
        yield Check(SECTION, "cores", State.NOTE, words, (f"docker run --cpus {usable}",), figures)
        return
    yield Check(SECTION, "cores", State.OK, words, (), figures)


def _usable_cores(host: CheckedHost) -> int:
    """The cores of this process; of a rank, which `ringtree run` binds to a share, those of its launcher."""
    if launched(host.env):
        with suppress(OSError):
            return len(os.sched_getaffinity(os.getppid()))
    return usable_cores()


def load(host: CheckedHost) -> Iterator[Check]:
    """The processes that want a core, on the average of a minute."""
    found = host.sysfs.text("proc/loadavg").split()[:1]
    try:
        waiting, online = float(found[0]), os.cpu_count() or 1
    except (IndexError, ValueError):
        yield Check(SECTION, "load", State.NOTE, "unknown: /proc/loadavg cannot be read")
        return
    words, figures = f"{waiting:g} on {count(online, 'core')}", {"load": waiting, "online_cores": online}
    if waiting <= BUSY * online:
        yield Check(SECTION, "load", State.OK, words, (), figures)
        return
    words += ": others keep the cores busy, and links seem slower than they are"
    yield Check(SECTION, "load", State.NOTE, words, ("ps -eo pcpu,pid,user,args --sort=-pcpu",), figures)


def memory(host: CheckedHost) -> Iterator[Check]:
    """Available memory, and the limit of the control group."""
    sysfs, room = host.sysfs, control_group(host.sysfs).memory
    fields = dict(line.split(":", 1) for line in sysfs.text("proc/meminfo").splitlines() if ":" in line)
    whole, free = (_kib(fields.get(key, "")) for key in ("MemTotal", "MemAvailable"))
    if whole is None or free is None:
        yield Check(SECTION, "memory", State.NOTE, "unknown: /proc/meminfo cannot be read")
        return
    words = f"{size(free)} of {size(whole)} available"
    figures = {"memory_bytes": whole, "available_bytes": free, "limit_bytes": room and room.limit_bytes}
    if room is not None and room.limit_bytes < whole:
        free = min(free, room.free_bytes)
        words = f"{size(free)} available of the {size(room.limit_bytes)} that a control group allows"
        figures["available_bytes"] = free
    state = State.OK if free >= FEW_MEMORY_BYTES else State.NOTE if free >= LEAST_MEMORY_BYTES else State.PROBLEM
    remedies = () if state is State.OK or room is None else ("docker run --memory 8g",)
    yield Check(SECTION, "memory", state, words, remedies, figures)


def _kib(text: str) -> int | None:
    number = text.split()[:1]
    return 1024 * int(number[0]) if number and number[0].isdecimal() else None


def shared_memory(host: CheckedHost) -> Iterator[Check]:
    """/dev/shm, which others fill: ringtree's memory has no name, and is not there."""
    path = host.root / "dev/shm"
    try:
        found = os.statvfs(path)
    except OSError as error:
        words = (
            f"{path} cannot be read ({error.strerror}): NCCL, MPI and torch's data loaders need it, ringtree does not"
        )
        yield Check(SECTION, "/dev/shm", State.NOTE, words, ("mount -t tmpfs tmpfs /dev/shm",))
        return
    whole, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    figures = {"size_bytes": whole, "free_bytes": free}
    words = f"{size(free)} of {size(whole)} free"
    if free > DOCKERS_SHM_BYTES:
        yield Check(SECTION, "/dev/shm", State.OK, words, (), figures)
        return
    words += ": little for NCCL, MPI or torch's data loaders; ringtree takes its memory elsewhere"
    remedies = ("docker run --shm-size 8g", "mount -o remount,size=8g /dev/shm")
    yield Check(SECTION, "/dev/shm", State.NOTE, words, remedies, figures)


def limits(host: CheckedHost) -> Iterator[Check]:
    """Descriptors, locked memory and processes."""
    there = process_limits(host.sysfs)
    for name, key, judge in (
        ("descriptors", "Max open files", _descriptors),
        ("locked memory", "Max locked memory", _locked),
        ("processes", "Max processes", _processes),
    ):
        if key in there:
            yield judge(host, name, there[key])
        else:
            yield Check(SECTION, name, State.NOTE, f"unknown: /{FILE} cannot be read")


def _descriptors(host: CheckedHost, name: str, limit: ProcessLimit) -> Check:
    words = f"{_number(limit.soft)} (ulimit -n), at most {_number(limit.hard)}"
    figures = {"soft": _finite(limit.soft), "hard": _finite(limit.hard)}
    if limit.soft >= FEW_DESCRIPTORS:
        return Check(SECTION, name, State.OK, words, (), figures)
    most = 65536 if isinf(limit.hard) else int(limit.hard)
    remedies = (f"ulimit -n {most}",) if most >= FEW_DESCRIPTORS else ("docker run --ulimit nofile=65536:65536",)
    return Check(SECTION, name, State.NOTE, f"{words}: a rank needs several for each peer", remedies, figures)


def _locked(host: CheckedHost, name: str, limit: ProcessLimit) -> Check:
    words = f"{_bytes(limit.soft)} (ulimit -l)"
    figures = {"soft_bytes": _finite(limit.soft), "hard_bytes": _finite(limit.hard)}
    if limit.soft >= ENOUGH_LOCKED_BYTES or not rdma_ports(host.sysfs):
        needless = "" if limit.soft >= ENOUGH_LOCKED_BYTES else "; only RDMA needs more, and no RDMA device is here"
        return Check(SECTION, name, State.OK, words + needless, (), figures)
    raised = ("ulimit -l unlimited",) if isinf(limit.hard) else ("docker run --ulimit memlock=-1:-1",)
    return Check(SECTION, name, State.NOTE, f"{words}: RDMA registers its buffers in it", raised, figures)


def _processes(host: CheckedHost, name: str, limit: ProcessLimit) -> Check:
    group = control_group(host.sysfs).processes
    least = min(limit.soft, inf if group is None else group)
    words = f"{_number(least)} ({'ulimit -u' if least == limit.soft else 'of the control group'})"
    figures = {"soft": _finite(limit.soft), "hard": _finite(limit.hard), "group": group}
    if least >= FEW_PROCESSES:
        return Check(SECTION, name, State.OK, words, (), figures)
    remedies = ("ulimit -u 4096",) if least == limit.soft else ("docker run --pids-limit -1",)
    return Check(SECTION, name, State.NOTE, f"{words}: threads count as well", remedies, figures)


def _number(value: float) -> str:
    return "unlimited" if isinf(value) else f"{int(value):,}"


def _bytes(value: float) -> str:
    return "unlimited" if isinf(value) else size(value)


def _finite(value: float) -> int | None:
    """None for no limit: JSON has no infinity."""
    return None if isinf(value) else int(value)
