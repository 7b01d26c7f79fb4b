"""What a case may leave behind, and must not: threads, descriptors and memory of a rank; processes, sockets, files."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from ringtree.runtime.bootstrap.local.socket_names import address, doorbell

ENDING_S = 2.0


def left_here(inherited: Collection[int]) -> list[str]:
    """What this process still has of groups that it closed. What its threads hold counts once they have ended.
    `inherited`: `shared_memory` of the process that forked it."""
    deadline_s = time.monotonic() + ENDING_S  # a joined thread is Python's no more, and may yet be the kernel's
    while (count := _threads_beside()) and time.monotonic() < deadline_s:
        time.sleep(0.001)
    found = [f"{count} threads beside the main one"] if count else []
    found += [f"descriptor {name}" for inode, name in _descriptors() if inode not in inherited]
    found += [f"mapping {name}" for inode, name in _mappings() if inode not in inherited]
    return found


def shared_memory() -> set[int]:
    """The inodes of shared memory that this process has open or mapped."""
    return {inode for inode, _ in (*_descriptors(), *_mappings())}


def _threads_beside() -> int:
    """Threads but for the main one and rank 0's server, where ranks of several hosts meet while its process lives."""
    servers = sum(thread.name == "ringtree rendezvous" for thread in threading.enumerate())
    return len(os.listdir("/proc/self/task")) - 1 - servers


def _descriptors() -> Iterator[tuple[int, str]]:
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself
            name = os.readlink(f"/proc/self/fd/{number}")
            if re.match(r"/?memfd:|/dev/shm/", name):
                yield os.stat(f"/proc/self/fd/{number}").st_ino, name


def _mappings() -> Iterator[tuple[int, str]]:
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            if "memfd:" in line:
                *_, inode, name = line.split(maxsplit=5)
                yield int(inode), name.strip()


def children() -> list[int]:
    """Processes whose parent this process is, zombies too; orphans come to it, where it is their subreaper."""
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found += map(int, file.read().split())
    return found


def sockets(keys: Iterable[str], ranks: int) -> list[str]:
    """Abstract sockets of groups of these keys that somebody still holds."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as table:
        held = {line.rpartition(" ")[2].strip() for line in table}
    names = {key: [address(key), *(doorbell(key, rank) for rank in range(ranks))] for key in keys}
    return [f"socket of {key}" for key, own in names.items() if any("@" + name[1:] in held for name in own)]


def files() -> set[str]:
    """This user's files in /dev/shm."""
    found = set()
    with suppress(OSError):  # there is none; a file of somebody else's is gone again
        for entry in os.scandir("/dev/shm"):
            if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                found.add(entry.name)
    return found


def open_here() -> int:
    """Descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))
