"""This user's processes that hold a descriptor of a group's memory, by /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

PROC = "/proc"
MEMORY = ("/memfd:ringtree (deleted)", "/dev/shm/#")
"""Links of descriptors that may be groups' memory: memfds, or files without names where those are refused."""


@dataclass(slots=True)
class HeldMemory:
    """A memory, by its device and inode, and the processes that hold it: a descriptor's path of each."""

    key: tuple[int, int]
    holders: dict[int, str] = field(default_factory=dict)


def own_processes() -> Iterator[int]:
    """The numbers of this user's processes, but for this one."""
    for name in os.listdir(PROC):
        with suppress(OSError):  # it has ended
            if name.isdecimal() and int(name) != os.getpid() and os.stat(f"{PROC}/{name}").st_uid == os.geteuid():
                yield int(name)


def shared_memories() -> list[HeldMemory]:
    """Memories that may be groups', in the order of the processes' numbers."""
    found: dict[tuple[int, int], HeldMemory] = {}
    for pid in sorted(own_processes()):
        with suppress(OSError):  # it has ended, or lets nobody look (PR_SET_DUMPABLE)
            for descriptor in os.listdir(f"{PROC}/{pid}/fd"):
                path = f"{PROC}/{pid}/fd/{descriptor}"
                with suppress(OSError):
                    if os.readlink(path).startswith(MEMORY):
                        status = os.stat(path)
                        key = (status.st_dev, status.st_ino)
                        found.setdefault(key, HeldMemory(key)).holders.setdefault(pid, path)
    return list(found.values())


def start_of(pid: int) -> int:
    """The start of a process, in clock ticks after boot; 0 if there is none, or only a zombie."""
    fields = _stat(pid)
    return 0 if not fields or fields[0] in "ZX" else int(fields[19])


def is_stopped(pid: int) -> bool:
    """Whether a signal, or a debugger, has stopped the process."""
    fields = _stat(pid)
    return bool(fields) and fields[0] in "Tt"


def _stat(pid: int) -> list[str]:
    """The fields of a process from its state on; none where it has ended."""
    try:
        with open(f"{PROC}/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def space_of(pid: int) -> int:
    """The inode of a process's pid namespace; 0 where it cannot be read."""
    try:
        return os.stat(f"{PROC}/{pid}/ns/pid").st_ino
    except OSError:
        return 0


def number_inside(pid: int) -> int:
    """A process's number in its own pid namespace."""
    with suppress(OSError, ValueError, StopIteration), open(f"{PROC}/{pid}/status") as lines:
        return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])
    return pid


def command_of(pid: int) -> str:
    """A process's command line, "" where it cannot be read."""
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 12).split(b"\0")
    except OSError:
        return ""
    text = " ".join(word.decode(errors="replace") for word in words if word)
    return "".join(c if c.isprintable() else "?" for c in text)
