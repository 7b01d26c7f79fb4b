"""What a buffer argument means: one table of arguments and the elements that each denotes."""

from __future__ import annotations

import array
import mmap
from typing import Any

import numpy as np
import pytest

from ringtree import mpi as MPI
from ringtree.mpi.types.buffers import block, octet_blocks, octets, placed
from ringtree.mpi.types.typed import TypedBlocks

SIX = np.arange(6, dtype=np.int32)
SWAPPED = SIX.astype(SIX.dtype.newbyteorder())
OBJECTS = np.array(["a", None], object)
MAPPED = mmap.mmap(-1, 24)
MAPPED[:] = SIX.tobytes()

WHOLE: list[Any] = [
    SIX,
    SIX.reshape(2, 3),
    np.asfortranarray(SIX.reshape(3, 2).T),
    array.array("i", SIX),
    memoryview(SIX),
    [SIX],
    [SIX, 6],
    [SIX, MPI.INT],
    (SIX, 6, MPI.INT),
    [SIX, "i"],
    [SIX, None, "i4"],
    [SIX, (6, 0), MPI.INT],
    [SIX, [6, 0]],
    [SIX, [6, None], MPI.INT],
    [SIX, 6, 0, MPI.INT],
    [bytearray(SIX.tobytes()), MPI.INT],
    [SIX.tobytes(), 6, "INT"],
    [MAPPED, MPI.INT],
    [MAPPED, 6, MPI.INT32_T],
]


@pytest.mark.parametrize("spec", WHOLE, ids=range(len(WHOLE)))
def test_many_arguments_denote_the_same_elements(spec: Any) -> None:
    assert block(spec).tolist() == SIX.tolist() and block(spec).dtype == np.int32
    assert octets(spec).tobytes() == SIX.tobytes()
    assert octet_blocks(spec if not isinstance(spec, list | tuple) else list(spec)[:1] + ["i"], 2).shape == (2, 12)


@pytest.mark.parametrize("name", ["f4", "f8", "g", "c16", "i8", "?", "U3", "S3", "M8[D]", "V3"])
def test_a_scalar_of_numpy_is_a_buffer(name: str) -> None:
    """np.float64 is a float as well, and np.str_ a str, which are none."""
    scalar = np.frombuffer(b"abc", "S3").astype(name)[0] if name[0] in "USV" else np.ones(1, name)[0]
    assert octets(scalar).tobytes() == block(scalar).tobytes() == scalar.tobytes() != b""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ([SIX, 2], [0, 1]),
        ([SIX, 2, MPI.INT], [0, 1]),
        ([SIX, (2, 3)], [3, 4]),
        ([SIX, (None, 4), "i"], [4, 5]),
        ([SIX, [2, 3]], [3, 4]),
        ([SIX, [2, 3], "i"], [3, 4]),
        ([SIX, 0, MPI.INT], []),
        ([SIX, 3, MPI.LONG], [1 << 32, 2 | 3 << 32, 4 | 5 << 32]),
        ([None, "B"], []),
        ([None, 0, MPI.BYTE], []),
        (None, []),
        (b"", []),
    ],
)
def test_part_of_a_buffer(spec: Any, expected: list[int]) -> None:
    assert block(spec).tolist() == expected
    assert octets(spec).nbytes == block(spec).nbytes


def test_a_count_is_of_each_block() -> None:
    assert block([SIX, 2], blocks=3).size == 6
    assert block([SIX, 1, MPI.INT], blocks=3).size == 3
    assert octet_blocks([MAPPED, 5, MPI.BYTE], 2, writable=True).shape == (2, 5)


@pytest.mark.parametrize(
    ("given", "counts", "displacements"),
    [
        (None, [2, 2, 2], [0, 2, 4]),
        (1, [1, 1, 1], [0, 1, 2]),
        ([3, 1, 2], [3, 1, 2], [0, 3, 4]),
        (([1, 0, 2], None), [1, 0, 2], [0, 1, 1]),
        (([1, 1, 1], [4, 2, 0]), [1, 1, 1], [4, 2, 0]),
        ((1, 2), [1, 1, 1], [0, 2, 4]),
        ((None, [4, 0, 2]), [2, 2, 2], [4, 0, 2]),
        ((np.array([2, 2, 2]), (0, 2, 4)), [2, 2, 2], [0, 2, 4]),
    ],
)
def test_blocks_of_each_rank(given: Any, counts: list[int], displacements: list[int]) -> None:
    assert placed([SIX, given, MPI.INT], 3)[1:] == (counts, displacements)
    if isinstance(given, tuple):
        assert placed([SIX, *given, MPI.INT], 3)[1:] == (counts, displacements)


@pytest.mark.parametrize(
    ("spec", "ranks", "counts"),
    [
        (SIX, 4, [2, 2, 1, 1]),
        ([SIX, MPI.INT], 5, [2, 1, 1, 1, 1]),
        ([SIX, None, "i"], 7, [1, 1, 1, 1, 1, 1, 0]),
        ([SIX, MPI.INT.Create_contiguous(2)], 2, [2, 1]),
        (None, 2, [0, 0]),
    ],
)
def test_the_first_ranks_have_one_more_of_what_the_ranks_do_not_divide(spec: Any, ranks: int, counts: Any) -> None:
    assert placed(spec, ranks)[1:] == (counts, [sum(counts[:rank]) for rank in range(ranks)])


@pytest.mark.parametrize(
    ("spec", "error", "expected"),
    [
        ([SIX, [1, 2, 3]], ValueError, r"3 counts of one block; expected a count, or \(count, displacement\)"),
        ([SIX, 7], ValueError, "the buffer has 6 elements; a part of 7 elements at displacement 0 does not fit"),
        ([SIX, -1], ValueError, "a count of -1 elements; expected 0 or more"),
        ([SIX, (1, 6)], ValueError, "a part of 1 element at displacement 6 does not fit"),
        ([SIX, 0, 0, "i", None], ValueError, r"\[data, count, type\]"),
        ([SIX, 1, "spam"], KeyError, "typestring"),
        ([SIX, MPI.DATATYPE_NULL], ValueError, "DATATYPE_NULL"),
        ([SIX, 1, MPI.DATATYPE_NULL], MPI.Exception, "DATATYPE_NULL"),
        ([[1, 2], 2], TypeError, "list is no buffer"),
        (object(), TypeError, "object is no buffer"),
        (SIX.reshape(2, 3)[:, :2], ValueError, "contiguous"),
        (OBJECTS, TypeError, "elements of object are addresses of this process"),
        ([OBJECTS, 2, MPI.INT64_T], TypeError, "elements of object are addresses"),
        ([memoryview(OBJECTS), 2, MPI.INT64_T], TypeError, "elements of object are addresses"),
        (np.zeros(2, [("a", "i4"), ("b", "O")]), TypeError, "are addresses of this process"),
        (SWAPPED, TypeError, "not in this machine's order of bytes; expected x.astype"),
        ([SWAPPED, 6], TypeError, "not in this machine's order of bytes"),
        (memoryview(SWAPPED), TypeError, "not in this machine's order of bytes"),
    ],
)
def test_mistakes(spec: Any, error: type[BaseException], expected: str) -> None:
    with pytest.raises(error, match=expected):
        block(spec)
    with pytest.raises(error, match=expected):
        octets(spec)


HALVES = [MPI.INT.Create_subarray([6], [3], [start]).Commit() for start in (3, 0)]


@pytest.mark.parametrize("rest", [[HALVES], [(None, None), HALVES], [None, None, HALVES], [[1, 1], [0, 0], HALVES]])
def test_types_alone_are_one_of_each(rest: list[Any]) -> None:
    blocks = TypedBlocks([SIX, *rest], 2).blocks
    assert [block.view(np.int32).tolist() for block in blocks] == [[3, 4, 5], [0, 1, 2]]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (SIX, r"expected a buffer as \[data, types\]"),
        ([SIX], r"expected a buffer as \[data, types\]"),
        ([SIX, HALVES[:1]], "2 counts, 2 displacements, 1 types; expected 2"),
        ([SIX, (None, [0, 0]), HALVES], "counts without displacements, or the reverse"),
        ([MPI.BOTTOM, HALVES], "BOTTOM without counts and displacements"),
    ],
)
def test_mistakes_in_typed_blocks(spec: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        TypedBlocks(spec, 2)


def test_a_given_type_counts_whatever_the_order_of_bytes() -> None:
    assert octets([SWAPPED, 6, MPI.INT]).tobytes() == SWAPPED.tobytes()
    assert block([SWAPPED, 24, MPI.BYTE]).tobytes() == SWAPPED.tobytes()


def test_receive_buffers_are_writable() -> None:
    with pytest.raises(ValueError, match="read-only"):
        octets(b"abc", writable=True)
    target = bytearray(3)
    octets([target, 3, MPI.BYTE], writable=True)[:] = 7
    assert target == b"\7\7\7"


def test_blocks_must_lie_within_the_buffer() -> None:
    for given in ([3, 3, 1], ([1, 1, 1], [0, 1, 6]), [1, 2], ([1, 1, 1], [0, -1, 1])):
        with pytest.raises(ValueError):
            placed([SIX, given, MPI.INT], 3)


@pytest.mark.parametrize("name", ["INT", "DOUBLE", "BYTE", "C_BOOL", "FLOAT_INT", "LONG_DOUBLE", "COMPLEX"])
def test_a_type_is_found_by_its_name_and_code(name: str) -> None:
    datatype = getattr(MPI, name)
    assert MPI.Datatype.fromcode(name) == datatype
    assert datatype.Get_extent() == (0, datatype.Get_size()) == (0, datatype.dtype.itemsize)
    assert datatype.dtype.names or MPI.Datatype.fromcode(datatype.tocode()).dtype == datatype.dtype
