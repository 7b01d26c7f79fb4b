"""A rank's resources: open slots, memory, descriptors, threads; and the growth that is a leak.

Resident memory has what C's allocator keeps free in pieces, which grows for minutes and hides a leak. What is in use
grows only as caches fill: the heap's bytes, and Python's objects, which are not in that heap.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.soak.script import MOST_GROUPS

MIB = 1 << 20
OBJECTS_OF_A_GROUP = 2
"""That torch keeps of each group that a rank was ever in, also of Gloo's."""
THREADS = 2
"""That a group starts when it first needs them: for asynchronous calls, and for messages that go on by themselves."""
MAPPINGS = 64
"""More or fewer of them are the allocator's: arenas of threads, and arrays of megabytes that come and go."""
IN_THE_MAKING, OF_A_GROUP = 8, 8
"""Descriptors that a thread has open for as long as it makes a group, and those of a group over hosts."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Allowance:
    """Growth of a rank's memory that is no leak."""

    resident_nbytes: int
    heap_nbytes: int
    objects: int


FILLING_CALLS = 2500
"""Calls after which the caches are full: plans of the last 1024 kinds of calls, and the peers' staging."""
OF_A_CALL = Allowance(16 << 10, 4 << 10, 30)
"""What each call of a thread may leave until then; 9 KiB, 2 KiB and 25 were the most on average."""


def allowances(threads: int, torch: bool) -> tuple[Allowance, Allowance]:
    """Those with full caches: from the warm-up, and from half way, when what fills is full and what leaks goes on."""
    others = threads - 1
    # Every thread has an arena of the allocator, with free pieces; torch's tensors leave most, 28 MiB in 44,000 calls.
    resident = (48 if torch else 16 + 12 * others) * MIB
    arrays = 6 * others * MIB  # of the other threads' calls, which go on: up to four of 400,000 elements
    return (
        Allowance(resident, 8 * MIB + arrays, 12_000 + 6_000 * others),
        Allowance(resident * 3 // 4, 6 * MIB + arrays, 8_000 + 4_000 * others),
    )


class _Mallinfo2(ctypes.Structure):
    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = tuple((name, ctypes.c_size_t) for name in _names)


_mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
if _mallinfo2 is not None:
    _mallinfo2.restype = _Mallinfo2


@dataclass(frozen=True)
class Figures:
    """Resources of one rank after so many `calls` of its first thread. `groups_of_torch`: that it was ever in."""

    slots_open: int
    resident_nbytes: int
    descriptors: int
    threads: int
    dev_shm_nbytes: int
    proportional_nbytes: int
    mappings: int
    heap_nbytes: int = 0
    objects: int = 0
    calls: int = 0
    groups_of_torch: int = 0

    def most(self, other: Figures) -> Figures:
        """The larger of each."""
        return Figures(*(max(getattr(self, f.name), getattr(other, f.name)) for f in fields(Figures)))

    def with_least_memory(self, lately: Iterable[Figures]) -> Figures:
        """These, with the least memory of those looks: what is in use by calls that are under way comes and goes."""
        looks = [self, *lately]
        return replace(
            self,
            resident_nbytes=min(look.resident_nbytes for look in looks),
            heap_nbytes=min(look.heap_nbytes for look in looks),
            objects=min(look.objects for look in looks),
        )

    def __str__(self) -> str:
        return (
            f"slots {self.slots_open}, memory {self.resident_nbytes / MIB:.1f} MiB, "
            f"heap {self.heap_nbytes / MIB:.1f} MiB, objects {self.objects:,}, descriptors {self.descriptors}, "
            f"threads {self.threads}, mappings {self.mappings}, /dev/shm {self.dev_shm_nbytes / MIB:.1f} MiB"
        )


def figures(groups: Iterable[Communicator], calls: int = 0, groups_of_torch: int = 0) -> Figures:
    """This process's, as Linux has them, after so many calls in so many groups."""
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
        _heap_nbytes(),
        sys.getallocatedblocks(),
        calls,
        groups_of_torch,
    )


def _proportional_nbytes() -> int:
    """Resident memory, of which what is shared counts by this process's share; 0 where Linux has no such file."""
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as rollup:
            return next((int(line.split()[1]) << 10 for line in rollup if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def _heap_nbytes() -> int:
    """What C's allocator has given out and not got back; 0 where the C library does not count it."""
    if _mallinfo2 is None:
        return 0
    counted = _mallinfo2()
    return int(counted.uordblks + counted.hblkhd)


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


def grown(warm: Figures, half: Figures, now: Figures, threads: int = 1, torch: bool = False) -> str:
    """The excess growth, in words, since the warm-up ended at `warm`, or since half way; "" if there is none. What is
    in /dev/shm may be anybody's, and is only reported. The other `threads` go on meanwhile, with up to MOST_GROUPS."""
    if now.slots_open:
        return f"{now.slots_open} staging slots are open between calls; expected none"
    since = ("after the warm-up", "half way")
    for before, allowed, when in zip((warm, half), allowances(threads, torch), since, strict=True):
        if wrong := _more_memory(before, now, allowed, threads, when):
            return wrong
    others = threads - 1
    descriptors = others * (IN_THE_MAKING + OF_A_GROUP * MOST_GROUPS)
    most_threads = THREADS * (1 + others * (1 + MOST_GROUPS))
    for what, more in (("descriptors", descriptors), ("threads", most_threads), ("mappings", MAPPINGS)):
        number, after = getattr(warm, what), getattr(now, what)
        if after > number + more:
            return f"{after} {what}; after the warm-up there were {number}; expected at most {more} more"
    return ""


def _more_memory(before: Figures, now: Figures, allowed: Allowance, threads: int, when: str) -> str:
    filling = threads * (min(now.calls, FILLING_CALLS) - min(before.calls, FILLING_CALLS))
    for what, name in (("resident memory", "resident_nbytes"), ("the heap", "heap_nbytes")):
        number, after = getattr(before, name), getattr(now, name)
        more = getattr(allowed, name) + filling * getattr(OF_A_CALL, name)
        if after > number + more:
            return (
                f"{what} grew from {number / MIB:.1f} to {after / MIB:.1f} MiB; "
                f"expected at most {more / MIB:.0f} MiB more than {when}"
            )
    groups = now.groups_of_torch - before.groups_of_torch
    more = allowed.objects + filling * OF_A_CALL.objects + groups * OBJECTS_OF_A_GROUP
    if now.objects > before.objects + more:
        return f"{now.objects:,} objects; {when} there were {before.objects:,}; expected at most {more:,} more"
    return ""
