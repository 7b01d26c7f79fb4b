"""Comm: a Communicator with mpi4py's names. Its methods come in families, one file each; this file has its identity."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakValueDictionary

from ringtree.mpi.collectives.collectives import CollectiveMethods
from ringtree.mpi.collectives.objects import ObjectMethods
from ringtree.mpi.collectives.uneven import UnevenForms
from ringtree.mpi.constants import (
    ANY_SOURCE,
    APPNUM,
    COMM_TYPE_SHARED,
    CONGRUENT,
    IDENT,
    IO,
    LASTUSEDCODE,
    SIMILAR,
    TAG_UB,
    TAG_UB_VALUE,
    UNDEFINED,
    UNEQUAL,
    UNIVERSE_SIZE,
    WTIME_IS_GLOBAL,
)
from ringtree.mpi.errhandler import ErrorRaiser
from ringtree.mpi.errors import ERR_ARG, ERR_COMM, ERR_GROUP, ERR_KEYVAL, ERR_LASTCODE, Exception, translating
from ringtree.mpi.groups.group import Group
from ringtree.mpi.info import Hinted, Info
from ringtree.mpi.leaving import Groups, leave, settle
from ringtree.mpi.messages.matched import MatchedProbes
from ringtree.mpi.messages.messages import MessageMethods
from ringtree.mpi.missing import MpiObject, missing_of
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.world import init

if TYPE_CHECKING:
    from typing_extensions import Self

_handles: WeakValueDictionary[int, Comm] = WeakValueDictionary()
_joining = threading.RLock()  # joining COMM_SELF joins COMM_WORLD


@translating
class Comm(
    CollectiveMethods, UnevenForms, ObjectMethods, MessageMethods, MatchedProbes, Hinted, ErrorRaiser, MpiObject
):
    """A group of ranks, and this rank's place in it. `Comm(communicator)` is the MPI face of any Communicator."""

    def __init__(self, comm: Comm | Communicator | None = None, name: str = "") -> None:
        self._name: str = name
        if not (comm is None or isinstance(comm, Comm | Communicator)):
            raise TypeError(f"got {type(comm).__name__}; expected a Comm")
        if isinstance(comm, Comm) and comm.is_inter != self.is_inter:
            raise TypeError(f"{type(self).__name__} of a {type(comm).__name__}; expected one of as many groups")
        if isinstance(comm, Comm):
            self._name, comm = comm._name, comm._comm if comm else None
        if comm is not None:
            self._comm = comm

    def __getattr__(self, name: str) -> Any:
        if name != "_comm":
            raise missing_of(type(self), name)
        with _joining:
            if "_comm" not in self.__dict__:
                self._comm = self._join()
        return self._comm

    def _join(self) -> Communicator:
        if Comm._finalized:
            raise Exception(ERR_COMM, "MPI.Finalize was called: no communicator is left, and none can be made")
        raise Exception(ERR_COMM, "COMM_NULL: this rank has no communicator, or it was freed")

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._comm.size

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return self._comm.rank

    @property
    def name(self) -> str:
        """The name that `Set_name` gave."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def group(self) -> Group:
        """The ranks as a Group."""
        return self.Get_group()

    is_inter, is_intra, is_topo = False, True, False
    _joins = False  # at its first use
    _finalized = False

    @property
    def topology(self) -> int:
        """CART, GRAPH or DIST_GRAPH; UNDEFINED without a topology."""
        return UNDEFINED

    def Get_topology(self) -> int:
        """CART, GRAPH or DIST_GRAPH; UNDEFINED without a topology."""
        return self.topology

    def toint(self) -> int:
        """A number for this communicator in this process, for `fromint`."""
        number = id(self._comm)
        _handles[number] = self
        return number

    py2f = toint

    @classmethod
    def fromint(cls, number: int) -> Comm:
        """The communicator of that number; COMM_NULL where there is none."""
        return _handles.get(number, COMM_NULL)

    f2py = fromint

    def Get_size(self) -> int:
        """Number of ranks."""
        return self._comm.size

    def Get_rank(self) -> int:
        """This rank, from 0."""
        return self._comm.rank

    def Get_name(self) -> str:
        """The name that `Set_name` gave."""
        return self._name

    def Set_name(self, name: str) -> None:
        """Names the communicator, on this rank only."""
        self._name = name

    def Is_inter(self) -> bool:
        """Whether the ranks are two groups."""
        return self.is_inter

    def Is_intra(self) -> bool:
        """Whether the ranks are one group."""
        return self.is_intra

    def Get_group(self) -> Group:
        """The ranks as a Group, without communication."""
        members = self._comm.ranks
        return Group(members, members[self._comm.rank])

    def Compare(self, other: Comm) -> int:
        """IDENT, CONGRUENT (same ranks, same order), SIMILAR (other order) or UNEQUAL."""
        if self == other:
            return IDENT
        mine, its = self._comm.ranks, other._comm.ranks
        return CONGRUENT if mine == its else SIMILAR if sorted(mine) == sorted(its) else UNEQUAL

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """The Comm of the ranks that pass the same `color`, ordered by `key`; COMM_NULL for a rank that passes
        UNDEFINED."""
        check_color(color)
        return Intracomm(self._comm.split(None if color == UNDEFINED else color, key))

    def Split_type(self, split_type: int, key: int = 0, info: object = None) -> Comm:
        """The Comm of the ranks of this rank's host, for COMM_TYPE_SHARED."""
        check_split_type(split_type)
        return self.Split(UNDEFINED if split_type == UNDEFINED else self._comm.hosts[self._comm.rank], key)

    def Dup(self, info: Info | None = None) -> Comm:
        """A new communicator of the same ranks; all ranks call it together. It has these hints, or this one's."""
        made = Intracomm(self._comm.duplicate())
        made.Set_info(info or self.info)
        return made

    def Dup_with_info(self, info: Info) -> Comm:
        """Dup with these hints."""
        return self.Dup(info)

    Clone = Dup

    def Create(self, group: Group) -> Comm:
        """The Comm of a group; all ranks of this Comm call it. COMM_NULL for those outside the group."""
        self._places(group)
        place = group.rank
        return self.Split(UNDEFINED if place == UNDEFINED else 0, place)

    def Create_group(self, group: Group, tag: int = 0) -> Comm:
        """The Comm of a group; only its ranks call it. COMM_NULL for any other that does."""
        places = self._places(group)
        return Intracomm(self._comm.group(places)) if self._comm.rank in places else COMM_NULL

    def _places(self, group: Group) -> list[int]:
        """The group's ranks as ranks here. Exception of ERR_GROUP: if one is none."""
        here = self._comm.ranks
        if strangers := [member for member in group.members if member not in here]:
            raise Exception(
                ERR_GROUP, f"rank {strangers[0]} of the world is not in this communicator, which has {here}"
            )
        return [here.index(member) for member in group.members]

    @classmethod
    def Get_parent(cls) -> Comm:
        """A null Intercomm, which is COMM_NULL: no rank is spawned by others."""
        null: Comm = import_module("ringtree.mpi.groups.intercomm").Intercomm()
        return null

    def Get_attr(self, keyval: int) -> int:
        """The value of TAG_UB, IO, WTIME_IS_GLOBAL, UNIVERSE_SIZE, APPNUM or LASTUSEDCODE."""
        known = {
            TAG_UB: TAG_UB_VALUE,
            IO: ANY_SOURCE,
            WTIME_IS_GLOBAL: int(len(set(self._comm.hosts)) == 1),
            UNIVERSE_SIZE: COMM_WORLD.size,
            APPNUM: 0,
            LASTUSEDCODE: ERR_LASTCODE,
        }
        if keyval not in known:
            raise Exception(ERR_KEYVAL, f"a communicator has no attribute {keyval}; expected TAG_UB and its like")
        return known[keyval]

    def free(self) -> None:
        """Free of what is neither null, nor COMM_WORLD or COMM_SELF."""
        if self and not self._joins:
            self.Free()

    def Free(self) -> None:
        """Makes this COMM_NULL. The group is left when the calls that were started here have ended, and persistent
        requests are freed: at once where there are none."""
        leave(self._groups())
        self.__dict__.pop("_comm", None)
        self.__class__ = Intracomm  # COMM_WORLD, freed, does not join again

    def Disconnect(self) -> None:
        """Free, after all calls that were started here have ended: waits for them as long as the group's timeout."""
        settle(self._groups())
        self.Free()

    def _groups(self) -> Groups:
        return (self._comm,)

    def _kept(self) -> Self:
        self._groups()  # joined, or the error of COMM_NULL
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """Ends this process at once; its peers report that it died, and a launcher ends them. The system has a byte for
        `errorcode`: 1 where that would be 0."""
        sys.stdout.flush()
        sys.stderr.write(f"MPI.Abort({errorcode}) on rank {self.rank} of {self.size}\n")
        sys.stderr.flush()
        os._exit(errorcode & 0xFF or 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Comm) and self._key() == other._key()

    def _key(self) -> object:
        return self.__dict__.get("_comm", type(self) if self._joins else None)

    def __hash__(self) -> int:
        return hash(self._key())

    def __bool__(self) -> bool:
        return self._key() is not None

    def __reduce__(self) -> str | tuple[Any, ...]:
        for name, one in (("COMM_NULL", COMM_NULL), ("COMM_WORLD", COMM_WORLD), ("COMM_SELF", COMM_SELF)):
            if self == one:
                return name if self is one else (type(self), (one,) if one else ())
        raise ValueError(f"{self!r} cannot be pickled: it is this process's own")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name or self.__dict__.get('_comm', 'null')}>"


def check_color(color: int) -> None:
    """Raises Exception of ERR_ARG for what is no color of Split."""
    if color < 0 and color != UNDEFINED:
        raise Exception(ERR_ARG, f"color {color}; expected 0 or more, or UNDEFINED")


def check_split_type(split_type: int) -> None:
    """Raises Exception of ERR_ARG for what Split_type cannot split by."""
    if split_type not in (COMM_TYPE_SHARED, UNDEFINED):
        raise Exception(ERR_ARG, f"split type {split_type}; expected COMM_TYPE_SHARED or UNDEFINED")


def _topologies() -> Any:
    """The module of communicators with topologies, which derive from Intracomm."""
    return import_module("ringtree.mpi.groups.topologies")


class Intracomm(Comm):
    """A Comm whose ranks are one group."""

    @classmethod
    def Create_from_group(
        cls, group: Group, stringtag: str = "org.mpi4py", info: Info | None = None, errhandler: object = None
    ) -> Comm:
        """The Comm of a group of the world; only its ranks call it."""
        return COMM_WORLD.Create_group(group)

    def Create_intercomm(self, local_leader: int, peer_comm: Comm, remote_leader: int, tag: int = 0) -> Comm:
        """The Intercomm of this group and another, which calls it, too. The leaders meet in `peer_comm`, where the
        other's leader is `remote_leader`."""
        made: Comm = import_module("ringtree.mpi.groups.intercomm").between(
            self, local_leader, peer_comm, remote_leader, tag
        )
        return made

    def Create_cart(self, dims: Sequence[int], periods: Any = None, reorder: bool = False) -> Intracomm:
        """A Cartcomm of the first ranks, in their order; COMM_NULL for the others. `periods`: one a dimension, or one
        for all."""
        made: Intracomm = _topologies().grid(self, dims, periods)
        return made

    def Create_graph(self, index: Sequence[int], edges: Sequence[int], reorder: bool = False) -> Intracomm:
        """A Graphcomm of the first ranks, in their order; COMM_NULL for the others."""
        made: Intracomm = _topologies().graph(self, index, edges)
        return made

    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int] | None,
        destinations: Sequence[int] | None,
        sourceweights: Any = None,
        destweights: Any = None,
        info: object = None,
        reorder: bool = False,
    ) -> Intracomm:
        """A Distgraphcomm of which each rank names its own neighbours."""
        made: Intracomm = _topologies().adjacent(self, sources, destinations, (sourceweights, destweights))
        return made

    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Any = None,
        info: object = None,
        reorder: bool = False,
    ) -> Intracomm:
        """A Distgraphcomm of which each rank names any edges: source k has the next degrees[k] destinations."""
        made: Intracomm = _topologies().scattered(self, sources, degrees, destinations, weights)
        return made

    def Cart_map(self, dims: Sequence[int], periods: Any = None) -> int:
        """The rank that Create_cart would give this one; UNDEFINED outside the grid."""
        return self.rank if self.rank < math.prod(_topologies().shape(dims, periods)[0]) else UNDEFINED

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        """The rank that Create_graph would give this one; UNDEFINED outside the graph."""
        return self.rank if self.rank < len(_topologies().ends_of(index, edges)) else UNDEFINED


class _World(Intracomm):
    """All ranks of the job; the bootstrap runs at the first use beyond the name."""

    _joins = True

    def _join(self) -> Communicator:
        return init()


class _Self(Intracomm):
    """A Comm of this rank alone."""

    _joins = True

    def _join(self) -> Communicator:
        world = COMM_WORLD._comm
        return world.group([world.rank])


COMM_NULL = Intracomm(name="MPI_COMM_NULL")
COMM_WORLD: Intracomm = _World(name="MPI_COMM_WORLD")
COMM_SELF: Intracomm = _Self(name="MPI_COMM_SELF")
