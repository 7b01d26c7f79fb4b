"""Communicators with a topology: a grid, a graph, or each rank's own list of neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ringtree.mpi.comm import COMM_NULL, Comm, Intracomm
from ringtree.mpi.constants import CART, DIST_GRAPH, GRAPH, PROC_NULL, UNDEFINED, UNWEIGHTED, WEIGHTS_EMPTY
from ringtree.mpi.errors import ERR_ARG, ERR_DIMS, Exception, translating
from ringtree.mpi.groups.neighbours import NeighbourCollectives
from ringtree.mpi.leaving import Groups
from ringtree.runtime.communicator.composite import CompositeCall

if TYPE_CHECKING:
    from typing_extensions import Self


@translating
class Topocomm(NeighbourCollectives, Intracomm):
    """An Intracomm whose ranks have neighbours. `_facts` describe the topology; the messages of its collectives travel
    on a communicator of their own, so that no Recv of the program's takes one."""

    topology: int
    _facts: tuple[Any, ...]
    _private: Intracomm

    def __init__(self, comm: Comm | None = None) -> None:
        if type(self) is Topocomm or not (comm is None or isinstance(comm, type(self))):
            raise TypeError(f"{type(self).__name__} of a {type(comm).__name__}; expected one of the same topology")
        super().__init__(comm)
        if isinstance(comm, Topocomm):
            self._facts, self._private = comm._facts, comm._private

    @classmethod
    def _over(cls, comm: Comm, facts: tuple[Any, ...]) -> Self:
        """The topology over the ranks of `comm`, which becomes its own."""
        made = cls.__new__(cls)
        Intracomm.__init__(made, comm)
        made._facts, made._private = facts, comm.Dup()  # type: ignore[assignment]
        return made

    is_topo = True

    def Get_topology(self) -> int:
        """CART, GRAPH or DIST_GRAPH."""
        return self.topology

    def Dup(self, info: object = None) -> Self:
        """A new communicator of the same ranks and the same topology."""
        return self._over(super().Dup(), self._facts)

    Clone = Dup

    def _groups(self) -> Groups:
        return (self._private._comm, *super()._groups())

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """Ranks that this rank receives from, and ranks that it sends to, in the order of the collectives' blocks."""
        return self.inedges, self.outedges

    @property
    def indegree(self) -> int:
        """Number of ranks to receive from, those that are PROC_NULL included."""
        return len(self.inedges)

    @property
    def outdegree(self) -> int:
        """Number of ranks to send to, those that are PROC_NULL included."""
        return len(self.outedges)

    @property
    def degrees(self) -> tuple[int, int]:
        """`indegree` and `outdegree`."""
        return self.indegree, self.outdegree


@translating
class Cartcomm(Topocomm):
    """A grid; the last coordinate varies fastest with the rank."""

    topology = CART

    @property
    def dims(self) -> list[int]:
        """Ranks along each dimension."""
        return list(self._facts[0])

    @property
    def periods(self) -> list[bool]:
        """Whether the ends of each dimension are neighbours."""
        return list(self._facts[1])

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return len(self._facts[0])

    ndim = dim

    @property
    def coords(self) -> list[int]:
        """This rank's coordinates."""
        return self.Get_coords(self.rank)

    @property
    def topo(self) -> tuple[list[int], list[bool], list[int]]:
        """`dims`, `periods` and `coords`."""
        return self.dims, self.periods, self.coords

    def Get_dim(self) -> int:
        """Number of dimensions."""
        return self.dim

    def Get_topo(self) -> tuple[list[int], list[bool], list[int]]:
        """`dims`, `periods` and `coords`."""
        return self.topo

    def Get_coords(self, rank: int) -> list[int]:
        """The coordinates of a rank."""
        _check([rank], self.size, "grid")
        coords: list[int] = []
        for length in reversed(self._facts[0]):
            rank, place = divmod(rank, length)
            coords.insert(0, place)
        return coords

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """The rank at these coordinates; those of a periodic dimension may lie outside it."""
        dims, periods = self._facts
        if len(coords) != len(dims):
            raise ValueError(f"{len(coords)} coordinates; expected one a dimension, {len(dims)}")
        rank = 0
        for place, length, periodic in zip(coords, dims, periods, strict=True):
            if not (periodic or 0 <= place < length):
                raise Exception(ERR_ARG, f"no rank at {list(coords)}: coordinate {place} is outside 0..{length - 1}")
            rank = rank * length + place % length
        return rank

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """The ranks `disp` steps before and behind this one along dimension `direction`; PROC_NULL beyond an end."""
        if not 0 <= direction < self.dim:
            raise Exception(ERR_ARG, f"dimension {direction}; expected 0..{self.dim - 1}")
        return self._at(direction, -disp), self._at(direction, disp)

    def _at(self, direction: int, step: int) -> int:
        coords = self.coords
        coords[direction] += step
        if not self._facts[1][direction] and not 0 <= coords[direction] < self._facts[0][direction]:
            return PROC_NULL
        return self.Get_cart_rank(coords)

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        """The grids of the dimensions that remain: this rank's one."""
        if len(remain_dims) != self.dim:
            raise ValueError(f"{len(remain_dims)} dimensions to keep or not; expected one each, {self.dim}")
        keep = [d for d, remains in enumerate(remain_dims) if remains]
        coords, (dims, periods) = self.coords, self._facts
        gone = tuple(c for d, c in enumerate(coords) if d not in keep)
        lengths = [n for d, n in enumerate(dims) if d not in keep]
        color = 0
        for place, length in zip(gone, lengths, strict=True):
            color = color * length + place
        return Cartcomm._over(self.Split(color, self.rank), ([dims[d] for d in keep], [periods[d] for d in keep]))

    @property
    def inedges(self) -> list[int]:
        """The rank before and the rank behind this one in each dimension; PROC_NULL beyond an end."""
        return [rank for direction in range(self.dim) for rank in self.Shift(direction, 1)]

    @property
    def outedges(self) -> list[int]:
        """As `inedges`."""
        return self.inedges


@translating
class Graphcomm(Topocomm):
    """A graph that every rank knows whole: the neighbours of rank r are edges[index[r - 1]:index[r]]."""

    topology = GRAPH

    @property
    def index(self) -> list[int]:
        """The end of each rank's neighbours in `edges`."""
        return list(self._facts[0])

    @property
    def edges(self) -> list[int]:
        """The neighbours of all ranks, one rank after another."""
        return list(self._facts[1])

    @property
    def topo(self) -> tuple[list[int], list[int]]:
        """`index` and `edges`."""
        return self.index, self.edges

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """`index` and `edges`."""
        return self.topo

    @property
    def dims(self) -> tuple[int, int]:
        """Number of ranks, and of edges."""
        return len(self._facts[0]), len(self._facts[1])

    def Get_dims(self) -> tuple[int, int]:
        """Number of ranks, and of edges."""
        return self.dims

    @property
    def nnodes(self) -> int:
        """Number of ranks."""
        return len(self._facts[0])

    @property
    def nedges(self) -> int:
        """Number of edges."""
        return len(self._facts[1])

    def Get_neighbors(self, rank: int) -> list[int]:
        """The neighbours of a rank."""
        index, edges = self._facts
        _check([rank], len(index), "graph")
        return list(edges[index[rank - 1] if rank else 0 : index[rank]])

    def Get_neighbors_count(self, rank: int) -> int:
        """The number of a rank's neighbours."""
        return len(self.Get_neighbors(rank))

    @property
    def neighbors(self) -> list[int]:
        """This rank's neighbours."""
        return self.Get_neighbors(self.rank)

    @property
    def nneighbors(self) -> int:
        """The number of this rank's neighbours."""
        return len(self.neighbors)

    @property
    def inedges(self) -> list[int]:
        """This rank's neighbours."""
        return self.neighbors

    @property
    def outedges(self) -> list[int]:
        """This rank's neighbours."""
        return self.neighbors


@translating
class Distgraphcomm(Topocomm):
    """A graph of which each rank knows its own neighbours, and their weights where some were given."""

    topology = DIST_GRAPH

    @property
    def inedges(self) -> list[int]:
        """Ranks that this rank receives from."""
        return list(self._facts[0])

    @property
    def outedges(self) -> list[int]:
        """Ranks that this rank sends to."""
        return list(self._facts[1])

    def Get_dist_neighbors_count(self) -> tuple[int, int, bool]:
        """Ranks to receive from, ranks to send to, and whether the edges have weights."""
        return len(self._facts[0]), len(self._facts[1]), self._facts[2] is not None

    def Get_dist_neighbors(self) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        """`inedges`, `outedges` and their weights."""
        return self.inedges, self.outedges, self._facts[2]


def grid(comm: Intracomm, dims: Sequence[int], periods: Any = None) -> Intracomm:
    """The Cartcomm of the first ranks of `comm`, COMM_NULL for the others."""
    lengths, wraps = shape(dims, periods)
    count = math.prod(lengths)
    if count > comm.size:
        raise Exception(ERR_DIMS, f"a grid of {lengths} has {count} ranks; expected at most {comm.size}")
    part = comm.Split(0 if comm.rank < count else UNDEFINED, comm.rank)
    return Cartcomm._over(part, (lengths, wraps)) if part else COMM_NULL


def shape(dims: Sequence[int], periods: Any) -> tuple[list[int], list[bool]]:
    """Both as lists of one length; ValueError if they have not. Exception of ERR_DIMS: for a length below 1."""
    lengths = [int(n) for n in dims]
    if periods is None or isinstance(periods, bool | int):
        periods = [bool(periods)] * len(lengths)
    if len(periods) != len(lengths):
        raise ValueError(f"a grid of {lengths} with {len(periods)} periods; expected one each")
    if any(n < 1 for n in lengths):
        raise Exception(ERR_DIMS, f"a grid of {lengths}; expected lengths of 1 or more")
    return lengths, [bool(p) for p in periods]


def graph(comm: Intracomm, index: Sequence[int], edges: Sequence[int]) -> Intracomm:
    """The Graphcomm of the first ranks of `comm`, COMM_NULL for the others. A leading 0 of `index` counts for
    nothing."""
    ends, edges = ends_of(index, edges), _listed(edges)
    if len(ends) > comm.size:
        raise Exception(ERR_ARG, f"a graph of {len(ends)} ranks; expected at most {comm.size}")
    _check(edges, len(ends), "graph")
    part = comm.Split(0 if comm.rank < len(ends) else UNDEFINED, comm.rank)
    return Graphcomm._over(part, (ends, edges)) if part else COMM_NULL


def ends_of(index: Sequence[int], edges: Sequence[int]) -> list[int]:
    """The end of each rank's neighbours. A leading 0 before other numbers is no rank's, as mpi4py has it."""
    ends = [int(end) for end in index]
    if not ends or ends != sorted(ends) or ends[-1] != len(edges):
        raise Exception(ERR_ARG, f"a graph of index {ends} and {len(edges)} edges; expected one that ends there")
    return ends[1:] if len(ends) > 1 and ends[0] == 0 else ends


def adjacent(comm: Intracomm, sources: Any, destinations: Any, weights: tuple[Any, Any]) -> Distgraphcomm:
    """The Distgraphcomm of this rank's neighbours; `weights` of the sources and destinations, None for none."""
    ends = _listed(sources), _listed(destinations)
    for ranks in ends:
        _check([rank for rank in ranks if rank != PROC_NULL], comm.size, "graph")
    costs = [_weights(given, len(many)) for given, many in zip(weights, ends, strict=True)]
    both = None if costs == [None, None] else tuple(one or [] for one in costs)
    return Distgraphcomm._over(comm.Dup(), (*ends, both))


def _listed(ranks: Any) -> list[int]:
    """Ranks of any sequence, numpy's arrays too; None is no ranks."""
    return [] if ranks is None else [int(rank) for rank in ranks]


def _check(ranks: Sequence[int], count: int, where: str) -> None:
    """ValueError: unless all are among that many ranks of the topology."""
    for rank in ranks:
        if not 0 <= rank < count:
            raise ValueError(f"no rank {rank} in the {where}; expected 0..{count - 1}")


def _weights(given: Any, edges: int) -> list[Any] | None:
    """The weights of that many edges; None where they have none. ValueError: unless there is one for each."""
    if given is None or given is UNWEIGHTED:
        return None
    found: list[Any] = [] if given is WEIGHTS_EMPTY else np.asarray(given).tolist()
    if len(found) != edges:
        raise ValueError(f"{len(found)} weights of {edges} edges; expected one each")
    return found


def scattered(
    comm: Intracomm, sources: Sequence[int], degrees: Sequence[int], destinations: Sequence[int], weights: Any
) -> Distgraphcomm:
    """The Distgraphcomm of edges that any rank may know of: source k has the next degrees[k] destinations."""
    sources, degrees, destinations = _listed(sources), _listed(degrees), _listed(destinations)
    if sum(degrees) != len(destinations) or len(sources) != len(degrees):
        raise ValueError(f"degrees {degrees} of {len(sources)} sources, {len(destinations)} destinations")
    _check([*sources, *destinations], comm.size, "graph")
    heads = [source for source, degree in zip(sources, degrees, strict=True) for _ in range(degree)]
    costs = _weights(weights, len(heads))
    mine = list(zip(heads, destinations, costs or [1] * len(heads), strict=True)), costs is not None
    with CompositeCall(comm._comm._fail, "Create_dist_graph"):
        known = comm.allgather(mine)
        edges = [edge for part, _ in known for edge in part]
        inward = [(a, w) for a, b, w in edges if b == comm.rank]
        outward = [(b, w) for a, b, w in edges if a == comm.rank]
        both = [w for _, w in inward], [w for _, w in outward]
        facts = ([a for a, _ in inward], [b for b, _ in outward], both if any(w for _, w in known) else None)
        return Distgraphcomm._over(comm.Dup(), facts)


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Lengths of a grid of `nnodes` ranks, as equal as can be, longest first; `dims`: their number, or lengths of which
    the zeros are to be found. Exception of ERR_DIMS: if the lengths given do not divide `nnodes`."""
    given = [0] * dims if isinstance(dims, int) else [int(n) for n in dims]
    free = given.count(0)
    fixed = math.prod(n for n in given if n)
    if nnodes < 1 or fixed < 1 or nnodes % fixed or (not free and fixed != nnodes):
        raise Exception(ERR_DIMS, f"no grid of {given} has {nnodes} ranks")
    found = iter(_balanced(nnodes // fixed, free))
    return [n or next(found) for n in given]


def _balanced(count: int, parts: int) -> list[int]:
    """`parts` factors of `count`, longest first, whose longest is as short as can be, and so on for the others."""
    if parts <= 1:
        return [count] * parts
    best: list[int] = []
    for longest in range(1, count + 1):
        if count % longest == 0 and longest**parts >= count:
            rest = _balanced(count // longest, parts - 1)
            if not best and rest[0] <= longest:
                best = [longest, *rest]
    return best
