"""Windows: memory that ranks open to each other, and the calls between which accesses happen."""

from __future__ import annotations

import atexit
import operator
from contextlib import suppress
from typing import Any, NoReturn
from weakref import WeakSet

import numpy as np

from ringtree.mpi.comm import COMM_SELF, Intracomm
from ringtree.mpi.constants import (
    BOTTOM,
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    PROC_NULL,
    WIN_BASE,
    WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT,
    WIN_FLAVOR_ALLOCATE,
    WIN_FLAVOR_CREATE,
    WIN_FLAVOR_DYNAMIC,
    WIN_FLAVOR_SHARED,
    WIN_MODEL,
    WIN_SIZE,
    WIN_UNIFIED,
)
from ringtree.mpi.errors import ERR_RANK, ERR_RMA_SYNC, ERR_WIN, KINDS, Exception, translating
from ringtree.mpi.groups.group import Group
from ringtree.mpi.info import Hinted, Info
from ringtree.mpi.missing import missing_of_window
from ringtree.mpi.types.memory import OCTET, Memory, NumpyArray, address_of, as_memory, flat
from ringtree.mpi.windows.accesses import Accesses
from ringtree.mpi.windows.shared_memory import shared
from ringtree.mpi.windows.window_target import COMPLETED, POSTED, Access, Target
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.composite import CompositeCall

_open: WeakSet[Win] = WeakSet()
_NOTHING = np.empty(0, np.uint8)
FAILURES = (RuntimeError, *KINDS)
"""The errors of an access, behind which the other ranks still get what ends an epoch."""


@translating
class Win(Accesses, Hinted):
    """A window; `Win()` is WIN_NULL. It has a communicator of its own, and a thread, which makes other ranks' accesses
    to this rank's memory."""

    name: str
    _memory: NumpyArray
    _unit: int
    _flavor: int
    _target: Target
    _attached: dict[int, int] | None  # addresses and sizes, of a dynamic window
    _kept: dict[int, Any]  # the caller's memory
    _parts: list[NumpyArray]  # all ranks', of a shared window
    _exposed_to: list[int] | None  # the ranks that Post let in
    _reaching: list[int] | None  # the ranks that Start waited for

    def __init__(self, win: Win | None = None) -> None:
        if not (win is None or isinstance(win, Win)):
            raise TypeError(f"got {type(win).__name__}; expected a Win")
        self.__dict__.update({"name": "MPI_WIN_NULL"} if win is None else win.__dict__)

    @classmethod
    def _made(cls, comm: Communicator, memory: NumpyArray, unit: int, flavor: int, info: Info | None) -> Win:
        made = cls()
        made.name, made._comm, made._memory, made._unit, made._flavor = "", comm, memory, unit, flavor
        made._attached, made._kept, made._parts = {} if flavor == WIN_FLAVOR_DYNAMIC else None, {}, []
        made._exposed_to = made._reaching = None
        made._begin()
        with CompositeCall(comm._fail, "the making of a window"):
            made._extents = comm.all_gather_object(None if flavor == WIN_FLAVOR_DYNAMIC else (memory.size, unit))
            made._target = Target(comm, memory, unit, made._attached)
        if info:
            made.Set_info(info)
        _open.add(made)
        return made

    @classmethod
    def Create(cls, memory: Any, disp_unit: int = 1, info: Info | None = None, comm: Intracomm = COMM_SELF) -> Win:
        """Opens `memory`, which stays the caller's; None for none. All ranks of `comm` call it."""
        line = _NOTHING if memory is None or memory is BOTTOM else flat(memory, OCTET)
        made = cls._made(comm._comm.duplicate(), line, disp_unit, WIN_FLAVOR_CREATE, info)
        made._kept[0] = memory
        return made

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: Info | None = None, comm: Intracomm = COMM_SELF) -> Win:
        """Opens `size` new bytes, zeroed. All ranks of `comm` call it."""
        memory = np.zeros(operator.index(size), np.uint8)
        return cls._made(comm._comm.duplicate(), memory, disp_unit, WIN_FLAVOR_ALLOCATE, info)

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Info | None = None, comm: Intracomm = COMM_SELF
    ) -> Win:
        """Opens `size` new bytes, zeroed, that the other ranks reach as memory, too, by Shared_query: one part behind
        another. OSError: if the ranks share no host. Loads and stores are ordered by Fence, messages or a barrier, and
        are atomic beside no access."""
        own = comm._comm.duplicate()
        parts = shared(own, operator.index(size))
        made = cls._made(own, parts[own.rank], disp_unit, WIN_FLAVOR_SHARED, info)
        made._parts = parts
        return made

    @classmethod
    def Create_dynamic(cls, info: Info | None = None, comm: Intracomm = COMM_SELF) -> Win:
        """Opens what is attached later; displacements are addresses."""
        return cls._made(comm._comm.duplicate(), _NOTHING, 1, WIN_FLAVOR_DYNAMIC, info)

    def Attach(self, memory: Any) -> None:
        """Adds memory to a dynamic window."""
        attached = self._dynamic()
        line = flat(memory, OCTET)
        attached[address_of(line)], self._kept[address_of(line)] = line.size, memory

    def Detach(self, memory: Any) -> None:
        """Takes memory from a dynamic window."""
        self._dynamic().pop(address_of(memory), None)
        self._kept.pop(address_of(memory), None)

    def _dynamic(self) -> dict[int, int]:
        if self._attached is None:
            raise ValueError("Attach and Detach: expected a window of Create_dynamic")
        return self._attached

    def Shared_query(self, rank: int) -> tuple[Memory, int]:
        """A rank's part of a shared window, and the bytes of its displacements; of the first rank that has any, for
        PROC_NULL."""
        if not self._parts:
            raise ValueError("Shared_query: expected a window of Allocate_shared")
        if rank == PROC_NULL:
            rank = next((r for r, part in enumerate(self._parts) if part.size), 0)
        extent = self._extents[rank]
        assert extent is not None
        return as_memory(self._parts[rank]), extent[1]

    def Free(self) -> None:
        """Closes the window, after all accesses of all ranks; all call it. This is WIN_NULL from then on."""
        with CompositeCall(self._comm._fail, "Free"):
            self._settle_all()
            self._comm.barrier()
            self._target.stop()
            self._comm.barrier()  # who leaves while another's thread still listens ends it with an error
        self._comm.close()
        _open.discard(self)
        self.__dict__.clear()
        self.name = "MPI_WIN_NULL"

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
        self._ask(rank, Access("lock", lock=_lock_type(lock_type)), None).Wait()

    def Unlock(self, rank: int) -> None:
        """Gives the lock back, after all accesses to that rank."""
        self._unlock(rank)
        self._settle(rank)

    def Lock_all(self, assertion: int = 0) -> None:
        """Lock with LOCK_SHARED of all ranks' windows."""
        for request in [self._ask(rank, Access("lock", lock=LOCK_SHARED), None) for rank in range(self._comm.size)]:
            request.Wait()

    def Unlock_all(self) -> None:
        """Unlock of all ranks' windows."""
        for rank in range(self._comm.size):
            self._unlock(rank)
        self._settle_all()

    def _unlock(self, rank: int) -> None:
        with self._posting:
            self._silent.discard(rank)  # the answer is a flush's, too
            self._ask(rank, Access("unlock"), None)

    def Flush(self, rank: int) -> None:
        """Returns when all accesses to a rank are done there."""
        self._settle(rank)

    def Flush_all(self) -> None:
        """Returns when all accesses are done."""
        self._settle_all()

    Flush_local, Flush_local_all = Flush, Flush_all

    def Sync(self) -> None:
        """Does nothing: accesses and the program see one memory."""

    def Post(self, group: Group, assertion: int = 0) -> None:
        """Lets the ranks of a group begin their accesses to this rank."""
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
            raise Exception(ERR_RMA_SYNC, f"there is no epoch to end; expected {call} before")
        return ranks

    def tomemory(self) -> Memory:
        """This rank's memory."""
        return as_memory(self._memory)

    def Get_attr(self, keyval: int) -> int:
        """The value of WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR or WIN_MODEL."""
        known: dict[int, int] = {
            WIN_BASE: address_of(self._memory),
            WIN_SIZE: self._memory.size,
            WIN_DISP_UNIT: self._unit,
            WIN_CREATE_FLAVOR: self._flavor,
            WIN_MODEL: WIN_UNIFIED,
        }
        return known[keyval]

    @property
    def attrs(self) -> tuple[int, int, int]:
        """Address, bytes, and bytes of a displacement."""
        return self.Get_attr(WIN_BASE), self.Get_attr(WIN_SIZE), self._unit

    @property
    def flavor(self) -> int:
        """WIN_FLAVOR_CREATE, ..."""
        return self._flavor

    @property
    def model(self) -> int:
        """WIN_UNIFIED."""
        return WIN_UNIFIED

    def Get_group(self) -> Group:
        """The ranks that opened it."""
        return Group(self._comm.ranks, self._comm.ranks[self._comm.rank])

    @property
    def group(self) -> Group:
        """The ranks that opened it."""
        return self.Get_group()

    @property
    def group_size(self) -> int:
        """Number of ranks."""
        return self._comm.size

    @property
    def group_rank(self) -> int:
        """This rank."""
        return self._comm.rank

    def Get_name(self) -> str:
        """The name that Set_name gave."""
        return self.name

    def Set_name(self, name: str) -> None:
        """Names the window, in this process."""
        self.name = name

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # that Python's own modules ask for
            raise AttributeError(name)
        if name.startswith("_"):
            raise Exception(ERR_WIN, "WIN_NULL: this rank has no window, or it was freed")
        raise missing_of_window(name)

    def __bool__(self) -> bool:
        return "_comm" in self.__dict__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Win) and self.__dict__.get("_comm") is other.__dict__.get("_comm")

    def __hash__(self) -> int:
        return id(self.__dict__.get("_comm"))

    def __reduce__(self) -> str:
        if self is WIN_NULL:
            return "WIN_NULL"
        raise ValueError("a window cannot be pickled: it is this process's own")


WIN_NULL = Win()


def _lock_type(lock_type: int) -> int:
    if lock_type not in (LOCK_EXCLUSIVE, LOCK_SHARED):
        raise ValueError(f"lock type {lock_type}; expected LOCK_EXCLUSIVE or LOCK_SHARED")
    return lock_type


@atexit.register
def _stop_all() -> None:
    """Ends the threads of windows that are still open, before their communicators close."""
    for win in list(_open):
        win._target.stop(1.0)
