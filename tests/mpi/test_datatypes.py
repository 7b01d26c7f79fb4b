"""Derived datatypes: the bytes that each selects, as a list of places written out, and the calls that take them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from ringtree import mpi as MPI
from ringtree.mpi.types.packed import gathered
from tests.mpi.tables import Row, Started, check, ints

D, INT = MPI.DOUBLE, MPI.INT
SEVENTEEN = [*range(0, 66, 4), 67]  # blocks that are no equal steps, and too many for a view each
"""Displacements."""


def at(*elements: int, width: int = 8) -> list[int]:
    """The bytes of these elements."""
    return [e * width + k for e in elements for k in range(width)]


TYPES: list[tuple[str, MPI.Datatype, list[int], int]] = [
    ("contiguous", D.Create_contiguous(3), at(0, 1, 2), 24),
    ("contiguous of none", D.Create_contiguous(0), [], 0),
    ("vector", D.Create_vector(3, 2, 4), at(0, 1, 4, 5, 8, 9), 80),
    ("vector of dense blocks", D.Create_vector(3, 2, 2), at(0, 1, 2, 3, 4, 5), 48),
    ("hvector", INT.Create_hvector(2, 1, 6), [*range(4), *range(6, 10)], 10),
    ("vector of vectors", D.Create_vector(2, 1, 2).Create_vector(2, 1, 2), at(0, 2, 6, 8), 72),
    ("indexed", D.Create_indexed([2, 0, 1], [3, 9, 0]), at(3, 4, 0), 40),
    ("hindexed", INT.Create_hindexed([1, 1], [8, 2]), [*range(8, 12), *range(2, 6)], 10),
    ("indexed_block", D.Create_indexed_block(2, [4, 0]), at(4, 5, 0, 1), 48),
    ("hindexed_block", INT.Create_hindexed_block(1, [4, 0]), [*range(4, 8), *range(4)], 8),
    ("many blocks", D.Create_indexed_block(1, SEVENTEEN), at(*SEVENTEEN), 68 * 8),
    (
        "many blocks of vectors",
        INT.Create_vector(2, 1, 2).Create_indexed_block(1, SEVENTEEN),
        [b for s in SEVENTEEN for b in at(3 * s, 3 * s + 2, width=4)],
        68 * 12,
    ),
    ("subarray", D.Create_subarray([4, 5], [2, 3], [1, 2]), at(7, 8, 9, 12, 13, 14), 160),
    ("subarray of rows", D.Create_subarray([4, 5], [2, 5], [1, 0]), at(*range(5, 15)), 160),
    ("subarray of Fortran", D.Create_subarray([4, 5], [2, 1], [1, 2], MPI.ORDER_FORTRAN), at(9, 10), 160),
    ("subarray of 3", INT.Create_subarray([2, 3, 4], [2, 1, 2], [0, 1, 1]), at(5, 6, 17, 18, width=4), 96),
    ("struct", MPI.Datatype.Create_struct([1, 2], [0, 8], [MPI.CHAR, D]), [0, *range(8, 24)], 24),
    ("struct that is padded", MPI.Datatype.Create_struct([1, 1], [0, 8], [D, MPI.CHAR]), [*range(9)], 16),
    ("resized", D.Create_vector(2, 1, 3).Create_resized(0, 8), at(0, 3), 8),
    ("dup", D.Create_vector(2, 1, 2).Dup(), at(0, 2), 24),
]


@pytest.mark.parametrize(("datatype", "places", "extent"), [row[1:] for row in TYPES], ids=[row[0] for row in TYPES])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_type_selects_its_bytes(datatype: MPI.Datatype, places: list[int], extent: int, count: int) -> None:
    assert (datatype.size, datatype.extent) == (len(places), extent)
    every = [5 + k * extent + place for k in range(count) for place in places]
    memory = np.random.default_rng(1).integers(0, 256, 5 + max(every, default=0) + 9, np.uint8)
    packed = gathered(memory, 5, datatype.layout, count)
    assert packed.tolist() == memory[every].tolist()
    expected = memory.copy()
    expected[every] = fresh = np.arange(len(every)) % 251
    packed[:] = fresh
    if hasattr(packed, "unpack"):
        packed.unpack()
    assert memory.tolist() == expected.tolist()


@pytest.mark.parametrize(("datatype", "places"), [row[1:3] for row in TYPES], ids=[row[0] for row in TYPES])
def test_a_type_travels_in_a_pickle_and_packs(datatype: MPI.Datatype, places: list[int]) -> None:
    again = pickle.loads(pickle.dumps(datatype))
    assert again.decode()[1:] == datatype.decode()[1:]
    assert not again.is_predefined
    memory = np.arange(max(datatype.true_ub, 1), dtype=np.uint8)
    room, other = np.zeros(len(places) + 2, np.uint8), np.zeros_like(memory)
    end = again.Pack(memory, room, 2, MPI.COMM_SELF)
    assert end == again.Unpack(room, 2, other, MPI.COMM_SELF)
    assert end == 2 + (len(places) if datatype.extent else 0)
    assert other[places].tolist() == memory[places].tolist()


def grid(comm: MPI.Comm) -> Any:
    """[4, 6] doubles that tell their places, and their rank."""
    return np.arange(24.0).reshape(4, 6) + 100 * comm.rank


COLUMN = D.Create_vector(4, 1, 6)
COLUMNS = COLUMN.Create_resized(0, 8)


def column(x: Any, k: int) -> list[Any]:
    return [x.reshape(-1)[k:], 1, COLUMN]


def from_left(comm: MPI.Comm) -> Any:
    x = grid(comm)
    comm.Sendrecv(column(x, 4), (comm.rank + 1) % comm.size, 0, column(x, 0), (comm.rank - 1) % comm.size)
    return x


def from_left_begun(comm: MPI.Comm) -> Any:
    x = grid(comm)
    MPI.Request.Waitall(
        [
            comm.Irecv(column(x, 0), (comm.rank - 1) % comm.size),
            comm.Isend(column(x, 4), (comm.rank + 1) % comm.size),
        ]
    )
    return x


def from_left_as_numbers(rank: int, size: int) -> Any:
    x = np.arange(24.0).reshape(4, 6) + 100 * rank
    x[:, 0] = np.arange(24.0).reshape(4, 6)[:, 4] + 100 * ((rank - 1) % size)
    return x


def a_short_message(comm: MPI.Comm) -> Any:
    x = grid(comm)
    begun = comm.Irecv(column(x, 0), (comm.rank - 1) % comm.size)
    comm.Send(np.full(2, -1.0), (comm.rank + 1) % comm.size)
    begun.Wait()
    return x


def short(rank: int, size: int) -> Any:
    x = np.arange(24.0).reshape(4, 6) + 100 * rank
    x[:2, 0] = -1
    return x


def cast(comm: MPI.Comm, begin: bool) -> Any:
    x = grid(comm)
    if begin:
        comm.Ibcast(column(x, 2), 0).Wait()
    else:
        comm.Bcast(column(x, 2), 0)
    return x


def cast_read_only(comm: MPI.Comm) -> Any:
    """The root's buffer is only read."""
    x = grid(comm)
    x.flags.writeable = comm.rank != 0
    assert comm.Bcast(column(x, 2), 0) is None
    comm.Ibcast(column(x, 2), 0).Wait()
    return x


def casted(rank: int, size: int) -> Any:
    x = np.arange(24.0).reshape(4, 6) + 100 * rank
    x[:, 2] = np.arange(24.0).reshape(4, 6)[:, 2]
    return x


def columns_to_ranks(comm: MPI.Comm) -> Any:
    """Rank r gets column r of the root's, as a row."""
    out = np.empty(4)
    comm.Scatterv([grid(comm), ([1] * comm.size, range(comm.size)), COLUMNS] if comm.rank == 0 else None, out)
    return out


def rows_to_columns(comm: MPI.Comm) -> Any:
    x = np.zeros((4, comm.size))
    column = D.Create_vector(4, 1, comm.size).Create_resized(0, 8)
    comm.Allgather(np.full(4, comm.rank + 1.0), [x, 1, column])
    return x


def sums(comm: MPI.Comm) -> Any:
    x = grid(comm)
    comm.Allreduce(MPI.IN_PLACE, column(x, 1))
    return x[:, 1]


def transposed(comm: MPI.Comm) -> Any:
    """A matrix of [n, n] that the ranks have by rows: [1, n] each; and then by columns."""
    n = comm.size
    x, y = np.arange(2.0 * n).reshape(2, n) + 10 * comm.rank, np.zeros((2 * n, 1))
    sent = [D.Create_subarray([2, n], [2, 1], [0, r]).Commit() for r in range(n)]
    received = [D.Create_subarray([2 * n, 1], [2, 1], [2 * r, 0]) for r in range(n)]
    ones = [1] * n, [0] * n
    comm.Alltoallw([x, ones, sent], [y, ones, received])
    return y.reshape(-1)


def uneven_columns(comm: MPI.Comm) -> Any:
    n, x = comm.size, np.zeros((4, 2 * comm.size))
    column = D.Create_vector(4, 1, 2 * n).Create_resized(0, 8)
    comm.Allgatherv(np.full(4, comm.rank + 1.0), [x, [1] * n, range(0, 2 * n, 2), column])
    return x


def gathered_columns(comm: MPI.Comm) -> Any:
    n, x = comm.size, np.zeros((4, comm.size))
    column = D.Create_vector(4, 1, n).Create_resized(0, 8)
    comm.Igatherv(np.full(4, comm.rank + 1.0), [x, [1] * n, column] if comm.rank == 0 else None).Wait()
    return x


def columns_in_place(comm: MPI.Comm) -> Any:
    """Column r goes to rank r, whose column takes its place."""
    n = comm.size
    x = np.tile(10.0 * comm.rank + np.arange(n), (4, 1))
    comm.Ialltoallv(MPI.IN_PLACE, [x, [1] * n, D.Create_vector(4, 1, n).Create_resized(0, 8)]).Wait()
    return x


def by_address(comm: MPI.Comm) -> Any:
    x, y = ints(1, 2, 3) + comm.rank, np.zeros(3)
    kind = MPI.Datatype.Create_struct([3, 1], [MPI.Get_address(x), MPI.Get_address(y[1:])], [INT, D])
    if comm.rank == 0:
        y[1] = 7.5
    comm.Bcast([MPI.BOTTOM, 1, kind], 0)
    return x.tolist(), y.tolist()


ROWS: list[Row] = [
    ("columns by Sendrecv", from_left, from_left_as_numbers),
    ("columns by Irecv", from_left_begun, from_left_as_numbers),
    ("a short message leaves the rest", a_short_message, short),
    ("Bcast", lambda comm: cast(comm, False), casted),
    ("Ibcast", lambda comm: cast(comm, True), casted),
    ("Bcast of what is read-only", cast_read_only, casted),
    ("Scatterv", columns_to_ranks, lambda rank, n: [rank + 6.0 * k for k in range(4)]),
    ("Allgather", rows_to_columns, lambda rank, n: [[r + 1.0 for r in range(n)]] * 4),
    ("Allreduce", sums, lambda rank, n: [n * (1 + 6.0 * k) + 50 * n * (n - 1) for k in range(4)]),
    ("Alltoallw", transposed, lambda rank, n: [10.0 * s + rank + k * n for s in range(n) for k in (0, 1)]),
    ("Allgatherv", uneven_columns, lambda rank, n: [[v for r in range(n) for v in (r + 1.0, 0.0)]] * 4),
    ("Iscatterv", lambda comm: columns_to_ranks(Started(comm)), lambda rank, n: [rank + 6.0 * k for k in range(4)]),
    (
        "Ialltoallw",
        lambda comm: transposed(Started(comm)),
        lambda rank, n: [10.0 * s + rank + k * n for s in range(n) for k in (0, 1)],
    ),
    ("Igatherv", gathered_columns, lambda rank, n: [[0.0 if rank else r + 1.0 for r in range(n)]] * 4),
    ("Ialltoallv in place", columns_in_place, lambda rank, n: [[10.0 * r + rank for r in range(n)]] * 4),
    ("BOTTOM", by_address, lambda rank, n: ([1, 2, 3], [0.0, 7.5, 0.0])),
]


@pytest.mark.parametrize("ranks", [2, 3])
def test_derived_types_in_calls(ranks: int) -> None:
    check(ROWS, ranks)


def test_a_type_stays_when_what_it_was_made_of_is_freed() -> None:
    inner = D.Create_vector(2, 1, 2)
    struct = MPI.Datatype.Create_struct([1, 1], [0, 64], [inner, MPI.INT])
    outer = inner.Create_contiguous(2)
    inner.Free()
    for kind in (
        outer.decode()[0],
        struct.decode()[2]["datatypes"][0],
        outer.contents[3][0],
        struct.Get_contents()[3][0],
    ):
        assert kind.decode()[1:] == ("VECTOR", {"count": 2, "blocklength": 1, "stride": 2})
        kind.Free()
    again = pickle.loads(pickle.dumps([outer, struct]))
    assert [kind.size for kind in (outer, struct, *again)] == [32, 20, 32, 20]


def test_a_dup_has_the_code_of_its_type() -> None:
    twice = MPI.INT.Dup().Dup()
    assert (twice.tocode(), twice.typestr, twice.typechar) == (MPI.INT.tocode(), "i4", "i")
    with pytest.raises(ValueError, match="a derived type has no typestring"):
        MPI.INT.Create_contiguous(2).Dup().tocode()


def test_a_type_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="need bytes 16 to 56"):
        MPI.COMM_SELF.Bcast([np.zeros(6), (1, 0), D.Create_indexed([1, 1], [2, 6])])


@pytest.mark.parametrize(
    ("made", "error", "expected"),
    [
        (lambda: D.Create_contiguous(-1), MPI.ERR_COUNT, "a count of -1 elements; expected 0 or more"),
        (lambda: D.Create_vector(-2, 1, 2), MPI.ERR_COUNT, "a count of -2"),
        (lambda: D.Create_vector(2, -1, 2), MPI.ERR_ARG, "a blocklength of -1"),
        (lambda: D.Create_hvector(2, -1, 16), MPI.ERR_ARG, "a blocklength of -1"),
        (lambda: D.Create_indexed([1, -1], [0, 4]), MPI.ERR_ARG, "a blocklength of -1"),
        (lambda: D.Create_hindexed_block(-3, [0]), MPI.ERR_ARG, "a blocklength of -3"),
        (lambda: MPI.Datatype.Create_struct([-1], [0], [D]), MPI.ERR_ARG, "a blocklength of -1"),
        (lambda: MPI.Datatype.Create_struct([1], [0], [None]), MPI.ERR_TYPE, "None has no elements"),
        (lambda: MPI.DATATYPE_NULL.Create_vector(2, 1, 2), MPI.ERR_TYPE, "MPI.DATATYPE_NULL has no elements"),
    ],
)
def test_types_of_what_is_none_are_refused(made: Any, error: int, expected: str) -> None:
    with pytest.raises(MPI.Exception, match=expected) as caught:
        made()
    assert caught.value.Get_error_class() == error


def test_a_freed_type_is_the_null_type() -> None:
    kind = D.Create_vector(2, 1, 2)
    kind.Free()
    assert not kind
    assert kind == MPI.DATATYPE_NULL
