"""Epochs of a window: the calls between which accesses happen, and that wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import numpy as np

from ringtree.errors import TimedOut
from ringtree.mpi.constants import LOCK_EXCLUSIVE, LOCK_SHARED, PROC_NULL
from ringtree.mpi.errors import ERR_LOCKTYPE, ERR_RANK, ERR_RMA_SYNC, KINDS, Exception, translating
from ringtree.mpi.groups.group import Group
from ringtree.mpi.windows.accesses import Accesses
from ringtree.mpi.windows.window_target import COMPLETED, POSTED, Access

ALL = -1
"""All ranks, of Lock_all."""
_NOTHING = np.empty(0, np.uint8)
FAILURES = (RuntimeError, *KINDS)
"""The errors of an access, behind which the other ranks still get what ends an epoch."""


@translating
class Epochs(Accesses):
    """The epochs of a window's origin and of its target. Exception of ERR_RMA_SYNC: for an end without its begin, and
    a begin inside the like. PROC_NULL is no rank."""

    _exposed_to: list[int] | None  # the ranks that Post let in
    _reaching: list[int] | None  # the ranks that Start waited for
    _locked: set[int]  # ranks whose lock this one has by Lock, or ALL

    def _begin(self) -> None:
        super()._begin()
        self._exposed_to = self._reaching = None
        self._locked = set()

    def Fence(self, assertion: int = 0) -> None:
        """Returns when all accesses of all ranks are done; all call it. An access that failed is raised after that."""
        try:
            self._settle_all()
        except FAILURES:
            with suppress(*FAILURES):  # the first one counts
                self._comm.barrier()
            raise
        self._comm.barrier()

    def Lock(self, rank: int, lock_type: int = LOCK_EXCLUSIVE, assertion: int = 0) -> None:
        """Returns when this rank has the lock of a rank's window, alone or, with LOCK_SHARED, beside others; in the
        order of the calls. TimedOut: after the group's time."""
        if lock_type not in (LOCK_EXCLUSIVE, LOCK_SHARED):
            raise Exception(ERR_LOCKTYPE, f"lock type {lock_type}; expected LOCK_EXCLUSIVE or LOCK_SHARED")
        if rank == PROC_NULL:
            return
        self._known(rank)
        with self._posting:
            if self._locked & {rank, ALL}:
                _refuse(f"Lock({rank}): this rank has that lock; expected its end before")
            self._locked.add(rank)
        try:
            self._lock([rank], lock_type)
        except BaseException:
            self._locked.discard(rank)
            raise

    def Unlock(self, rank: int) -> None:
        """Gives the lock back, after all accesses to that rank."""
        if rank == PROC_NULL:
            return
        self._known(rank)
        with self._posting:
            if rank not in self._locked:
                _refuse(f"Unlock({rank}): this rank does not have that lock; expected Lock before")
            self._locked.discard(rank)
        self._unlock(rank)
        self._settle(rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Lock with LOCK_SHARED of all ranks' windows."""
        with self._posting:
            if self._locked:
                _refuse("Lock_all: this rank has a lock; expected its end before")
            self._locked.add(ALL)
        try:
            self._lock(range(self._comm.size), LOCK_SHARED)
        except BaseException:
            self._locked.discard(ALL)
            raise

    def Unlock_all(self) -> None:
        """Unlock of all ranks' windows."""
        with self._posting:
            if ALL not in self._locked:
                _refuse("Unlock_all: this rank does not have all locks; expected Lock_all before")
            self._locked.discard(ALL)
        for rank in range(self._comm.size):
            self._unlock(rank)
        self._settle_all()

    def _lock(self, ranks: Sequence[int], lock_type: int) -> None:
        """Waits for the locks; withdraws the requests where the group's time ends."""
        requests = [self._ask(rank, Access("lock", lock=lock_type), None) for rank in ranks]
        try:
            for request in requests:
                request._wait()
        except TimedOut:
            with self._posting:
                for rank in ranks:
                    self._send(rank, Access("unlock"))
            raise

    def _unlock(self, rank: int) -> None:
        with self._posting:
            self._silent.discard(rank)  # the answer is a flush's, too
            self._ask(rank, Access("unlock"), None)

    def Flush(self, rank: int) -> None:
        """Returns when all accesses to a rank are done there. No lock is needed."""
        if rank != PROC_NULL:
            self._settle(self._known(rank))

    def Flush_all(self) -> None:
        """Returns when all accesses are done."""
        self._settle_all()

    Flush_local, Flush_local_all = Flush, Flush_all

    def Sync(self) -> None:
        """Does nothing: accesses and the program see one memory."""

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Lets the ranks of a group begin their accesses to this rank."""
        if self._exposed_to is not None:
            _refuse("Post: this rank has posted already; expected Wait before")
        self._exposed_to = self._places(group)
        for rank in self._exposed_to:
            self._comm.send(_NOTHING, rank, POSTED)

    def Wait(self) -> bool:
        """Returns when the ranks of the posted group have completed their accesses."""
        for rank in self._epoch(self._exposed_to, "Post"):
            self._comm.recv(_NOTHING.copy(), rank, COMPLETED)
        self._exposed_to = None
        return True

    def Test(self) -> bool:
        """Wait without waiting: whether all have completed."""
        if any(self._comm.iprobe(rank, COMPLETED) is None for rank in self._epoch(self._exposed_to, "Post")):
            return False
        return self.Wait()

    def Start(self, group: Group, assertion: int = 0) -> None:
        """Returns when the ranks of a group have posted."""
        if self._reaching is not None:
            _refuse("Start: this rank has started already; expected Complete before")
        self._reaching = self._places(group)
        for rank in self._reaching:
            self._comm.recv(_NOTHING.copy(), rank, POSTED)

    def Complete(self) -> None:
        """Ends the accesses to the started group. An access that failed is raised after that."""
        reached = self._epoch(self._reaching, "Start")
        self._reaching, failures = None, []
        for rank in reached:
            try:
                self._settle(rank)
            except FAILURES as failure:
                failures.append(failure)
            self._comm.send(_NOTHING, rank, COMPLETED)
        if failures:
            raise failures[0]

    def _places(self, group: Group) -> list[int]:
        for member in group.members:
            if member not in self._comm.ranks:
                raise Exception(ERR_RANK, f"rank {member} of the world is not among the window's, {self._comm.ranks}")
        return [self._comm.ranks.index(member) for member in group.members]

    def _epoch(self, ranks: list[int] | None, call: str) -> list[int]:
        if ranks is None:
            _refuse(f"there is no epoch to end; expected {call} before")
        return ranks


def _refuse(why: str) -> NoReturn:
    raise Exception(ERR_RMA_SYNC, why)
