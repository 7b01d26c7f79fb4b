"""Arguments that mpi4py, or the MPI below it, refuses: the same kind of error, with MPI's class where MPI finds it."""

from __future__ import annotations

from typing import Any

import pytest

from ringtree import mpi as MPI

NULL = MPI.DATATYPE_NULL
GRID = {"comm": lambda: MPI.COMM_SELF.Create_cart([1, 1], [False, True])}
LONG = "é" * 128
"""128 letters, 256 bytes."""

REFUSED: list[Any] = [
    (lambda: MPI.COMM_SELF.Create_cart([2]), MPI.ERR_DIMS, "a grid of .2. has 2 ranks; expected at most 1"),
    (lambda: MPI.COMM_SELF.Create_cart([0]), MPI.ERR_DIMS, "expected lengths of 1 or more"),
    (lambda: MPI.COMM_SELF.Cart_map([-1]), MPI.ERR_DIMS, "expected lengths of 1 or more"),
    (lambda: MPI.COMM_SELF.Create_graph([1, 2], [0, 1]), MPI.ERR_ARG, "expected at most 1"),
    (lambda: MPI.COMM_SELF.Create_graph([2], [0]), MPI.ERR_ARG, "a graph of index .2. and 1 edges"),
    (lambda: MPI.COMM_SELF.Graph_map([2, 1], [0]), MPI.ERR_ARG, "a graph of index"),
    (lambda: GRID["comm"]().Get_cart_rank([1, 0]), MPI.ERR_ARG, "coordinate 1 is outside 0..0"),
    (lambda: GRID["comm"]().Shift(2, 1), MPI.ERR_ARG, "dimension 2; expected 0..1"),
    (lambda: GRID["comm"]().Get_coords(1), MPI.ERR_RANK, "no rank 1"),
    (lambda: MPI.INT.Create_subarray([4], [3], [2]), MPI.ERR_ARG, "does not lie in a dimension of 4"),
    (lambda: MPI.INT.Create_subarray([4], [3], [1], 7), MPI.ERR_ARG, "order 7"),
    (lambda: MPI.INT.Create_subarray([], [], []), MPI.ERR_ARG, "without dimensions"),
    (lambda: MPI.INT.Pack(bytes(8), bytearray(7), 0, MPI.COMM_SELF), MPI.ERR_TRUNCATE, "the buffer has 7"),
    (lambda: MPI.INT.Unpack(bytes(7), 0, bytearray(8), MPI.COMM_SELF), MPI.ERR_TRUNCATE, "the buffer has 7"),
    (lambda: MPI.INT.Pack(bytes(4), bytearray(8), -4, MPI.COMM_SELF), MPI.ERR_TRUNCATE, "4 bytes from -4 on"),
    (NULL.Get_size, MPI.ERR_TYPE, "MPI.DATATYPE_NULL has no elements"),
    (NULL.Get_extent, MPI.ERR_TYPE, "has no elements"),
    (NULL.Get_true_extent, MPI.ERR_TYPE, "has no elements"),
    (NULL.Commit, MPI.ERR_TYPE, "has no elements"),
    (lambda: NULL.Pack_size(1, MPI.COMM_SELF), MPI.ERR_TYPE, "has no elements"),
    (lambda: NULL.Pack(bytes(4), bytearray(4), 0, MPI.COMM_SELF), MPI.ERR_TYPE, "has no elements"),
    (lambda: MPI.Datatype.Get_value_index(MPI.INT, NULL), MPI.ERR_TYPE, "has no elements"),
    (lambda: MPI.COMM_SELF.Isend([bytes(4), 1, NULL], 0), MPI.ERR_TYPE, "cannot describe a buffer's elements"),
    (lambda: MPI.Status().Get_count(NULL), MPI.ERR_TYPE, "no elements to count"),
    (lambda: MPI.Status().Get_elements(NULL), MPI.ERR_TYPE, "no elements to count"),
    (lambda: MPI.Info.Create().Set(LONG, "x"), MPI.ERR_INFO_KEY, "256 bytes in an Info; expected 255"),
    (lambda: MPI.Info.Create({LONG: "x"}), MPI.ERR_INFO_KEY, "a name of 256 bytes"),
    (lambda: MPI.Info.Create().Get(LONG), MPI.ERR_INFO_KEY, "a name of 256 bytes"),
    (lambda: MPI.Info.Create().Delete(LONG), MPI.ERR_INFO_KEY, "a name of 256 bytes"),
    (lambda: MPI.Info.Create().Set("x", "y" * 1025), MPI.ERR_INFO_VALUE, "1025 bytes in an Info; expected 1024"),
    (lambda: MPI.MESSAGE_NULL.Recv(bytearray(1)), MPI.ERR_REQUEST, "MESSAGE_NULL holds no message"),
    (MPI.MESSAGE_NULL.irecv, MPI.ERR_REQUEST, "MESSAGE_NULL holds no message"),
    (lambda: MPI.COMM_SELF.Bcast(bytearray(1), 3), MPI.ERR_ROOT, "root 3"),
    (lambda: MPI.COMM_SELF.Allgather(bytes(4), bytearray(3)), MPI.ERR_TRUNCATE, "Allgather: .* 4 bytes; expected 3"),
    (lambda: MPI.COMM_SELF.Gather(bytes(2), bytearray(3)), MPI.ERR_COUNT, "Gather: .* 2 bytes; expected 3, as"),
    (lambda: MPI.COMM_SELF.Scatter(bytes(2), bytearray(3)), MPI.ERR_TRUNCATE, "Scatter: .* 3 bytes; expected 2, as"),
    (lambda: MPI.COMM_SELF.Split(-3), MPI.ERR_ARG, "color -3"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_what_mpi_refuses_has_its_class(call: Any, error: int, text: str) -> None:
    with pytest.raises(MPI.Exception, match=text) as caught:
        call()
    assert caught.value.Get_error_class() == error


BY_PYTHON: list[Any] = [
    (lambda: MPI.COMM_SELF.Create_cart([1], [True, True]), ValueError, "with 2 periods"),
    (lambda: GRID["comm"]().Get_cart_rank([0]), ValueError, "1 coordinates; expected one a dimension"),
    (lambda: MPI.INT.Create_subarray([4, 4], [3], [1]), ValueError, "expected as many"),
    (lambda: MPI.INT.Create_indexed([1, 2], [1]), ValueError, "expected as many"),
    (lambda: MPI.COMM_SELF.Isend([bytes(4), NULL], 0), ValueError, "cannot describe a buffer's elements"),
    (lambda: MPI.Datatype.fromcode("abc@xyz"), ValueError, "^'abc@xyz' is no typestring"),
    (lambda: MPI.COMM_SELF.Isend([bytes(4), "abc@xyz"], 0), KeyError, "'abc@xyz' is no typestring"),
    (lambda: MPI.COMM_SELF.Isend([bytes(4), -1], 0), ValueError, "-1"),
    (lambda: MPI.COMM_SELF.Isend(7, 0), TypeError, "int is no buffer"),
    (lambda: MPI.Info.Create().Set("x", 1), TypeError, "expected texts"),
]


@pytest.mark.parametrize(("call", "kind", "text"), BY_PYTHON)
def test_what_mpi4py_itself_refuses_is_pythons_own_error(call: Any, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        call()
    assert not isinstance(caught.value, MPI.Exception)


def test_the_longest_name_and_text_of_an_info_are_kept() -> None:
    info = MPI.Info.Create()
    info.Set("k" * MPI.MAX_INFO_KEY, "v" * MPI.MAX_INFO_VAL)
    assert info.Get("k" * MPI.MAX_INFO_KEY) == "v" * MPI.MAX_INFO_VAL
