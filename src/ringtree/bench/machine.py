"""The machine that a figure was measured on. A number without its machine means nothing, so every record carries
this."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

import ringtree
from ringtree.runtime.bootstrap.environment import detect
from ringtree.runtime.launch import own_cores
from ringtree.runtime.processor import cpu

if TYPE_CHECKING:
    pass


class MachineDescription(TypedDict):
    """One machine in words and counts. What is unknown is "" or 0, never a guess."""

    cpu: str
    cores: int  # that this process may use, or the launcher that bound it to some
    caches: list[str]  # as "L2 1 MiB", each with "/ N cores" where several share it
    numa_nodes: int
    memory_bytes: int
    kernel: str
    python: str
    numpy: str
    ringtree: str


def describe(root: Path = Path("/")) -> MachineDescription:
    """This machine, as Linux describes it below `root`; on another system, as Python does."""
    return MachineDescription(
        cpu=cpu(root),
        cores=len(cores_here()) or usable_cores(),
        caches=_caches(root / "sys/devices/system/cpu/cpu0/cache"),
        numa_nodes=len(list((root / "sys/devices/system/node").glob("node[0-9]*"))),
        memory_bytes=1024 * int((_field(root / "proc/meminfo", "MemTotal") or "0").split()[0]),
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        numpy=np.__version__,
        ringtree=ringtree.__version__,
    )


def cores_here() -> set[int]:
    """The cores that measurements on this host are of: those that this process may use, and its launcher, which may
    have bound each rank to some; empty on another system than Linux."""
    found = set(own_cores.usable())
    with suppress(OSError, ValueError):  # contradicting variables of a launcher
        if found and detect(meets=True).size > 1:
            found |= os.sched_getaffinity(os.getppid())
    return found


def usable_cores() -> int:
    """Cores that this process may run on, which a container or taskset may have made fewer than there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _field(path: Path, key: str) -> str:
    """The first `key : value` line of a /proc file."""
    for line in _read(path).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _caches(folder: Path) -> list[str]:
    found = []
    for index in sorted(folder.glob("index[0-9]*")):
        kind, level, size = (_read(index / name) for name in ("type", "level", "size"))
        if kind == "Instruction" or not level or not size:
            continue
        sharers = _count(_read(index / "shared_cpu_list"))
        found.append(f"L{level} {_binary(size)}" + (f" / {sharers} cores" if sharers > 1 else ""))
    return found


def _binary(size: str) -> str:
    """Linux's "1024K" in the largest binary unit that leaves it whole."""
    if not size.endswith("K"):
        return size
    kib = int(size[:-1])
    return f"{kib // 1024} MiB" if kib % 1024 == 0 and kib else f"{kib} KiB"


def _count(cpu_list: str) -> int:
    """The number of CPUs in a list such as "0-3,8"."""
    total = 0
    for part in filter(None, cpu_list.split(",")):
        low, _, high = part.partition("-")
        total += int(high or low) - int(low) + 1
    return total
