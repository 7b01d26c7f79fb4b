"""Windows: memory that ranks open to each other, and the calls between which accesses happen."""

from __future__ import annotations

import atexit
import operator
from typing import Any, NoReturn
from weakref import WeakSet

import numpy as np

from ringtree.mpi.comm import COMM_SELF, Intracomm
from ringtree.mpi.constants import (
    BOTTOM,
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
from ringtree.mpi.errhandler import ErrorRaiser
from ringtree.mpi.errors import (
    ERR_DISP,
    ERR_KEYVAL,
    ERR_RMA_FLAVOR,
    ERR_SIZE,
    ERR_WIN,
    Exception,
    translating,
)
from ringtree.mpi.groups.group import Group
from ringtree.mpi.info import Hinted, Info
from ringtree.mpi.missing import MpiObject, missing_of
from ringtree.mpi.types.memory import OCTET, Memory, NumpyArray, address_of, as_memory, flat
from ringtree.mpi.windows.epochs import Epochs
from ringtree.mpi.windows.shared_memory import shared
from ringtree.mpi.windows.window_target import Target
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.composite import CompositeCall

_open: WeakSet[Win] = WeakSet()
_NOTHING = np.empty(0, np.uint8)


@translating
class Win(Epochs, Hinted, ErrorRaiser, MpiObject):
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

    def __init__(self, win: Win | None = None) -> None:
        if not (win is None or isinstance(win, Win)):
            raise TypeError(f"got {type(win).__name__}; expected a Win")
        self.__dict__.update({"name": "MPI_WIN_NULL"} if win is None else win.__dict__)

    @classmethod
    def _made(cls, comm: Communicator, memory: NumpyArray, unit: int, flavor: int, info: Info | None) -> Win:
        made = cls()
        made.name, made._comm, made._memory, made._unit, made._flavor = "", comm, memory, unit, flavor
        made._attached, made._kept, made._parts = {} if flavor == WIN_FLAVOR_DYNAMIC else None, {}, []
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
        _checked(line.size, disp_unit)
        made = cls._made(comm._comm.duplicate(), line, disp_unit, WIN_FLAVOR_CREATE, info)
        made._kept[0] = memory
        return made

    @classmethod
    def Allocate(cls, size: int, disp_unit: int = 1, info: Info | None = None, comm: Intracomm = COMM_SELF) -> Win:
        """Opens `size` new bytes, zeroed. All ranks of `comm` call it."""
        memory = np.zeros(_checked(size, disp_unit), np.uint8)
        return cls._made(comm._comm.duplicate(), memory, disp_unit, WIN_FLAVOR_ALLOCATE, info)

    @classmethod
    def Allocate_shared(
        cls, size: int, disp_unit: int = 1, info: Info | None = None, comm: Intracomm = COMM_SELF
    ) -> Win:
        """Opens `size` new bytes, zeroed, that the other ranks reach as memory, too, by Shared_query: one part behind
        another. OSError: if the ranks share no host. Loads and stores are ordered by Fence, messages or a barrier, and
        are atomic beside no access."""
        size, own = _checked(size, disp_unit), comm._comm.duplicate()
        parts = shared(own, size)
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
            raise Exception(ERR_RMA_FLAVOR, "Attach and Detach: expected a window of Create_dynamic")
        return self._attached

    def Shared_query(self, rank: int) -> tuple[Memory, int]:
        """A rank's part of a shared window, and the bytes of its displacements; of the first rank that has any, for
        PROC_NULL."""
        if not self._parts:
            raise Exception(ERR_RMA_FLAVOR, "Shared_query: expected a window of Allocate_shared")
        if rank == PROC_NULL:
            rank = next((r for r, part in enumerate(self._parts) if part.size), 0)
        self._known(rank)
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

    def free(self) -> None:
        """Free of what is not WIN_NULL."""
        if self:
            self.Free()

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
        if keyval not in known:
            raise Exception(ERR_KEYVAL, f"a window has no attribute {keyval}; expected WIN_BASE, WIN_SIZE, ...")
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
        raise missing_of(type(self), name)

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


def _checked(size: int, disp_unit: int) -> int:
    """The size, where both are numbers of bytes that a window can have."""
    if disp_unit < 1:
        raise Exception(ERR_DISP, f"displacements of {disp_unit} bytes; expected 1 or more")
    if size < 0:
        raise Exception(ERR_SIZE, f"a window of {size} bytes; expected 0 or more")
    return operator.index(size)


@atexit.register
def _stop_all() -> None:
    """Ends the threads of windows that are still open, before their communicators close."""
    for win in list(_open):
        win._target.stop(1.0)
