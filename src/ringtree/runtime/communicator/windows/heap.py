"""A symmetric heap: memory that peers read in place, of which each rank takes and gives back as it likes.

Only the first to take something wait for each other, to map the memory together. Each rank's part is as many addresses
as the machine has memory; what was handed out once exists, and is handed out again.
"""

from __future__ import annotations

import os
import time
import warnings
import weakref
from bisect import bisect
from collections import deque
from ctypes import c_char
from functools import partial
from threading import Lock
from typing import Any

from ringtree.errors import Mismatch, PeerDied, Poisoned
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local.shared_memory import memory_available_bytes
from ringtree.runtime.communicator.member import Member

PAGE_BYTES = 4096
LARGE_PAGE_BYTES = 2 << 20
"""Bytes by which the heap grows."""
MOST_BYTES = 1 << 41
"""All ranks' parts together: addresses, of which a process has 2^47, for all its groups."""
PATIENCE_S = 10.0
"""Seconds that the first ranks to take memory wait for the others, whose first call may never come."""
MAPPED_S = 1.0
"""Seconds that a rank that has mapped the memory waits for the others to map it."""


class Heap:
    """This rank's part of the heap that the members of `group` share."""

    def __init__(self, group: Member) -> None:
        self._group: Member | None = group  # until the heap is there, or known never to be
        self._lock = Lock()
        self._endpoint: Any = None
        self._mapped = memoryview(b"")  # a byte a rank: 1 where it has mapped the memory
        self._beside: list[int] = []  # the ranks on this host, which map the same
        self._ready = False  # all of them have
        self._memory = memoryview(b"")
        self._address = self._existing_bytes = 0
        self._free: list[tuple[int, int]] = []  # [begin, end) of this part, by address, never side by side
        self._returned: deque[tuple[int, int]] = deque()  # by any thread

    def take(self, nbytes: int) -> memoryview | None:
        """Memory that is taken for as long as anything holds the view. None where there is none, which is no error:
        it is full, or the members did not come together. Raises what made the group fail meanwhile."""
        with self._lock:
            if self._group is not None:
                group, self._group = self._group, None
                self._meet(group)
            size = max(-(-nbytes // PAGE_BYTES), 1) * PAGE_BYTES
            begin = self._claim(size)
        if begin is None:
            return None
        view = self._memory[begin : begin + nbytes]
        weakref.finalize(view, self._returned.append, (begin, begin + size)).atexit = False
        return view

    def _meet(self, group: Member) -> None:
        parameters, endpoint, ranks = group._parameters, group._endpoint, group.size
        if ranks == 1:
            return  # no peer reads it
        most_bytes = min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), MOST_BYTES // ranks)
        check_liveness = partial(endpoint.check_liveness, "allocate_tensor", list(range(ranks)))
        subject, patience_s = f"the symmetric memory of {ranks} ranks", min(parameters.timeout_s, PATIENCE_S)
        key = f"{parameters.key}/heap"
        members = BootstrapGroup(
            key, parameters.rank, parameters.names, subject, patience_s, check_liveness, inherited=True
        )
        nbytes = (1 + most_bytes // LARGE_PAGE_BYTES * ranks) * LARGE_PAGE_BYTES
        try:
            fd, _ = parameters.bootstrap.share(members, nbytes, reserved=PAGE_BYTES)
            try:
                whole = os.fstat(fd).st_size  # the leader's
                address = endpoint.add_region(fd, whole, 0, PAGE_BYTES)
            finally:
                os.close(fd)
        except (PeerDied, Mismatch, Poisoned):
            raise
        except (RuntimeError, MemoryError, OSError) as error:
            warnings.warn(f"no symmetric memory, so ordinary memory is used: {error}", RuntimeWarning, stacklevel=4)
            return
        part = (whole - LARGE_PAGE_BYTES) // ranks
        self._endpoint, self._address = endpoint, address + LARGE_PAGE_BYTES + part * parameters.rank
        self._memory, self._mapped = _view(self._address, part, endpoint), _view(address, ranks, endpoint)
        self._free = [(0, part)]
        hosts = parameters.bootstrap.hosts(members)
        self._beside = [rank for rank, host in enumerate(hosts) if host == hosts[parameters.rank]]
        self._mapped[parameters.rank] = 1
        until = time.monotonic() + MAPPED_S
        while not self._shared() and time.monotonic() < until:
            time.sleep(1e-4)

    def _shared(self) -> bool:
        """Whether all ranks of this host have mapped the memory. Before that no payload in it may be sent."""
        self._ready = self._ready or (len(self._mapped) > 0 and all(self._mapped[rank] for rank in self._beside))
        return self._ready

    def _claim(self, size: int) -> int | None:
        """The start of `size` existing free bytes, from the smallest free range that holds them; None if there is
        none."""
        while self._returned:
            self._give(*self._returned.popleft())
        if not self._shared():
            return None
        fitting = [(end - begin, k) for k, (begin, end) in enumerate(self._free) if end - begin >= size]
        if not fitting:
            return None
        k = min(fitting)[1]
        begin, end = self._free[k]
        if not self._prefault(begin + size):
            return None
        self._free[k : k + 1] = [(begin + size, end)] if begin + size < end else []
        return begin

    def _give(self, begin: int, end: int) -> None:
        k = bisect(self._free, (begin, end))
        if k < len(self._free) and self._free[k][0] == end:
            end = self._free.pop(k)[1]
        if k > 0 and self._free[k - 1][1] == begin:
            k -= 1
            begin = self._free.pop(k)[0]
        self._free.insert(k, (begin, end))

    def _prefault(self, end: int) -> bool:
        """Makes all up to there exist, so that no write ends the process for want of memory."""
        more = -(-(end - self._existing_bytes) // LARGE_PAGE_BYTES) * LARGE_PAGE_BYTES
        if more <= 0:
            return True
        if more > memory_available_bytes():
            return False
        try:
            self._endpoint.prefault(self._address + self._existing_bytes, more)
        except OSError:
            return False
        self._existing_bytes += more
        return True


def _view(address: int, nbytes: int, endpoint: Any) -> memoryview:
    """A view of mapped memory; it keeps the endpoint, and so the mapping, alive."""
    memory: Any = (c_char * nbytes).from_address(address)
    memory.endpoint = endpoint
    return memoryview(memory).cast("B")
