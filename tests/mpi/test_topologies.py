"""Grids and graphs of ranks, their neighbours, and the collectives between those, on real ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ringtree import mpi as MPI
from tests.mpi.tables import Row, check, ints


def line(comm: MPI.Comm) -> Any:
    """A grid with ends: nothing comes from beyond them."""
    grid = comm.Create_cart([comm.size])
    got = np.full(2, -1, np.int32)
    grid.Neighbor_allgather(ints(grid.rank), got)
    return [got, grid.neighbor_allgather(grid.rank)]


def of_line(rank: int, ranks: int) -> Any:
    behind = rank + 1 if rank + 1 < ranks else None
    return [[rank - 1, -1 if behind is None else behind], [rank - 1 if rank else None, behind]]


def circle(comm: MPI.Comm) -> Any:
    """What goes to the left arrives as what came from the right, also where both are one rank."""
    grid = comm.Create_cart([comm.size], periods=True)
    got = np.full(2, -1, np.int32)
    grid.Neighbor_alltoall(ints(10 * grid.rank, 10 * grid.rank + 1), got)
    return got


def torus(comm: MPI.Comm) -> Any:
    grid = comm.Create_cart([2, 2], periods=[True, False])
    if not grid:
        return None
    column = grid.Sub([True, False])
    return [grid.Get_topology() == MPI.CART, grid.coords, grid.Shift(0, 1), grid.Shift(1, 1), column.dims, column.size]


def of_torus(rank: int, ranks: int) -> Any:
    if rank >= 4:
        return None
    row, column = divmod(rank, 2)
    across = (MPI.PROC_NULL if column == 0 else rank - 1, MPI.PROC_NULL if column == 1 else rank + 1)
    return [True, [row, column], ((rank + 2) % 4, (rank + 2) % 4), across, [2], 2]


def star(comm: MPI.Comm) -> Any:
    """Rank 0 hears of all others; the edges are named by their other end."""
    edges = ([0], [1], [comm.rank]) if comm.rank else ([], [], [])
    graph = comm.Create_dist_graph([0] if comm.rank else [], edges[1], edges[2], MPI.UNWEIGHTED)
    return [graph.inedges, graph.outedges, graph.neighbor_allgather(comm.rank)]


def of_star(rank: int, ranks: int) -> Any:
    return [[0], [], [0]] if rank else [[], list(range(1, ranks)), []]


def weighed(comm: MPI.Comm) -> Any:
    """Numpy's arrays name neighbours and weights as lists do, also an array of rank 0 alone."""
    n, r = comm.size, comm.rank
    from_0 = comm.Create_dist_graph_adjacent(np.array([0]), np.arange(n if r == 0 else 0), np.array([3 + r]),
                                             np.arange(3, 3 + n if r == 0 else 3))  # fmt: skip
    circle = comm.Create_dist_graph(ints(r), ints(1), ints((r + 1) % n), ints(10 + r))
    to_0 = comm.Create_dist_graph(np.array([r]), np.array([1]), np.array([0]), MPI.UNWEIGHTED)
    apart = comm.Create_dist_graph([], [], [], MPI.WEIGHTS_EMPTY)
    found = [graph.Get_dist_neighbors() for graph in (from_0, circle, to_0, apart)]
    assert all(type(item) is int for graph in found for part in graph[:2] for item in part)
    with pytest.raises(ValueError, match="2 weights of 1 edges; expected one each"):
        comm.Create_dist_graph(ints(r), ints(1), ints(0), ints(1, 2))
    with pytest.raises(ValueError, match="0 weights of 1 edges; expected one each"):
        comm.Create_dist_graph_adjacent(ints(r), ints(r), MPI.WEIGHTS_EMPTY, ints(1))
    return found


def of_weighed(rank: int, ranks: int) -> Any:
    every = list(range(ranks))
    return [
        [[0], [] if rank else every, [[3 + rank], [] if rank else [3 + r for r in every]]],
        [[(rank - 1) % ranks], [(rank + 1) % ranks], [[10 + (rank - 1) % ranks], [10 + rank]]],
        [[] if rank else every, [0], None],
        [[], [], [[], []]],
    ]


def started_twice(comm: MPI.Comm) -> Any:
    """A persistent collective reads its buffer anew at each Start."""
    x, total = ints(comm.rank), ints(0)
    call = comm.Allreduce_init(x, total)
    seen = []
    for _ in range(2):
        call.Start()
        call.Wait()
        seen.append(int(total[0]))
        x += 1
    call.Free()
    return seen


def typed(comm: MPI.Comm) -> Any:
    """Alltoallw of ints from front to back, which arrive back to front."""
    x, got = np.arange(comm.size, dtype=np.int32) + 10 * comm.rank, np.zeros(comm.size, np.int32)
    places, ones, types = [4 * r for r in range(comm.size)], [1] * comm.size, [MPI.INT] * comm.size
    comm.Alltoallw([x, ones, places, types], [got, ones, places[::-1], types])
    return got


def typed_alone(comm: MPI.Comm) -> Any:
    """Alltoallw of [data, types]: what is at rank r's element of a row goes to rank r."""
    n, ring = comm.size, comm.Create_cart([comm.size], [True])
    kinds = [MPI.INT.Create_subarray([n], [1], [r]).Commit() for r in range(n)]
    x, got, started = np.arange(n, dtype=np.int32) + 10 * comm.rank, *np.full((2, n), -1, np.int32)
    comm.Alltoallw([x, kinds], [got, kinds])
    comm.Ialltoallw([x, kinds], [started, (None, None), kinds]).Wait()
    beside = np.full(2, -1, np.int32)
    kinds = [MPI.INT.Create_subarray([2], [1], [k]) for k in (0, 1)]
    ring.Neighbor_alltoallw([ints(comm.rank, comm.rank + 10), kinds], [beside, kinds])
    return [got, started, beside]


def long_doubles(comm: MPI.Comm) -> Any:
    x, out = np.full(2, comm.rank + 1, np.longdouble), np.zeros(2, np.longdouble)
    comm.Scan(x, out)
    top = np.zeros(2, np.longdouble)
    comm.Iallreduce(x, top, MPI.MAX).Wait()
    return [out.astype(int), top.astype(int)]


ROWS: list[Row] = [
    ("line", line, of_line),
    ("circle", circle, lambda r, n: [10 * ((r - 1) % n) + 1, 10 * ((r + 1) % n)]),
    ("star", star, of_star),
    ("weighed", weighed, of_weighed),
    ("started twice", started_twice, lambda r, n: [n * (n - 1) // 2, n * (n - 1) // 2 + n]),
    ("typed", typed, lambda r, n: [10 * s + r for s in reversed(range(n))]),
    (
        "typed alone",
        typed_alone,
        lambda r, n: [[10 * s + r for s in range(n)]] * 2 + [[(r - 1) % n + 10, (r + 1) % n]],
    ),
    ("long doubles", long_doubles, lambda r, n: [[(r + 1) * (r + 2) // 2] * 2, [n] * 2]),
]  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_collectives_of_topologies(ranks: int) -> None:
    check(ROWS, ranks)


def test_a_torus() -> None:
    check([("torus", torus, of_torus)], 5)


@pytest.mark.parametrize(
    ("count", "given", "dims"),
    [(24, 3, [4, 3, 2]), (7, 2, [7, 1]), (12, [0, 3], [4, 3]), (1, 4, [1, 1, 1, 1]), (6, [0, 6, 0], [1, 6, 1])],
)
def test_dimensions(count: int, given: Any, dims: list[int]) -> None:
    assert MPI.Compute_dims(count, given) == dims


def test_dimensions_that_do_not_divide() -> None:
    with pytest.raises(MPI.Exception, match="no grid") as caught:
        MPI.Compute_dims(7, [2, 0])
    assert caught.value == MPI.ERR_DIMS


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda c: c.Create_graph([1], [0]).Get_neighbors(-1), r"no rank -1 in the graph; expected 0\.\.0"),
        (lambda c: c.Create_graph([1], [1]), "no rank 1 in the graph"),
        (lambda c: c.Create_graph([1, 2], [0, 1]), "a graph of 2 ranks; expected at most 1"),
        (lambda c: c.Create_cart([1]).Sub([True, True]), "2 dimensions to keep or not; expected one each, 1"),
        (lambda c: c.Create_cart([1]).Sub([]), "0 dimensions to keep or not"),
        (lambda c: c.Create_dist_graph([0], [1], [1]), "no rank 1 in the graph"),
        (lambda c: c.Create_dist_graph_adjacent([7], []), "no rank 7 in the graph"),
    ],
)
def test_ranks_and_dimensions_that_there_are_not(call: Any, expected: str) -> None:
    with pytest.raises((ValueError, MPI.Exception), match=expected):
        call(MPI.COMM_SELF)
