"""A rank's resources: open slots, memory, descriptors, threads; and the growth that is a leak."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.soak.script import MOST_GROUPS

GROWTH_NBYTES = 64 << 20
"""Growth of a rank's resident memory after its warm-up, in bytes: more is a leak."""
THREADS = 2
"""That a group starts when it first needs them: for asynchronous calls, and for messages that go on by themselves."""
MAPPINGS = 64
"""More or fewer of them are the allocator's: arenas of threads, and arrays of megabytes that come and go."""
IN_THE_MAKING, OF_A_GROUP = 8, 8
"""Descriptors that a thread has open for as long as it makes a group, and those of a group over hosts."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Figures:
    """Resources of one rank, between two calls."""

    slots_open: int
    resident_nbytes: int
    descriptors: int
    threads: int
    dev_shm_nbytes: int
    proportional_nbytes: int
    mappings: int

    def most(self, other: Figures) -> Figures:
        """The larger of each."""
        return Figures(*(max(getattr(self, f.name), getattr(other, f.name)) for f in fields(Figures)))

    def __str__(self) -> str:
        return (
            f"slots {self.slots_open}, memory {self.resident_nbytes / 2**20:.1f} MiB, descriptors {self.descriptors}, "
            f"threads {self.threads}, mappings {self.mappings}, /dev/shm {self.dev_shm_nbytes / 2**20:.1f} MiB"
        )


def figures(groups: Iterable[Communicator]) -> Figures:
    """This process's, as Linux has them."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        resident = int(statm.read().split()[1]) * _PAGE
    return Figures(
        slots_open(groups),
        resident,
        len(os.listdir("/proc/self/fd")) - 1,  # but for the one that lists them
        len(os.listdir("/proc/self/task")),
        _used_nbytes("/dev/shm"),
        _proportional_nbytes(),
        _mappings(),
    )


def _proportional_nbytes() -> int:
    """Resident memory, of which what is shared counts by this process's share; 0 where Linux has no such file."""
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as rollup:
            return next((int(line.split()[1]) << 10 for line in rollup if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def _mappings() -> int:
    with open("/proc/self/maps", "rb") as maps:
        return maps.read().count(b"\n")


def _used_nbytes(folder: str) -> int:
    """Used bytes of the file system there; 0 where there is none."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


def slots_open(groups: Iterable[Communicator]) -> int:
    """How many staging slots of this rank calls have taken and not closed, over all groups."""
    return sum(group.slots_open for group in groups)


def grown(warm: Figures, now: Figures, other_threads: int = 0) -> str:
    """The excess growth, in words, since the warm-up ended at `warm`; "" if there is none. What is in
    /dev/shm may be anybody's, and is only reported. `other_threads` go on meanwhile, with up to MOST_GROUPS open."""
    if now.slots_open:
        return f"{now.slots_open} staging slots are open between calls; expected none"
    if now.resident_nbytes > warm.resident_nbytes + GROWTH_NBYTES:
        return (
            f"resident memory grew from {warm.resident_nbytes / 2**20:.1f} to {now.resident_nbytes / 2**20:.1f} MiB; "
            f"expected at most {GROWTH_NBYTES / 2**20:.0f} MiB more than after the warm-up"
        )
    descriptors = other_threads * (IN_THE_MAKING + OF_A_GROUP * MOST_GROUPS)
    threads = THREADS * (1 + other_threads * (1 + MOST_GROUPS))
    for what, more in (("descriptors", descriptors), ("threads", threads), ("mappings", MAPPINGS)):
        before, after = getattr(warm, what), getattr(now, what)
        if after > before + more:
            return f"{after} {what}; after the warm-up there were {before}; expected at most {more} more"
    return ""
