"""MPI's smaller names: texts of errors, constants, handles that end, and a hint for each that is missing."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ringtree import mpi as MPI

OBJECTS: list[Any] = [
    MPI.COMM_WORLD, MPI.INT, MPI.SUM, MPI.GROUP_EMPTY, MPI.INFO_ENV, MPI.REQUEST_NULL, MPI.MESSAGE_NULL, MPI.WIN_NULL,
    MPI.Status(),
]  # fmt: skip


def _named(owner: Any) -> str:
    return f"class {owner.__name__}" if isinstance(owner, type) else f"a {type(owner).__name__}"


def test_every_error_class_has_a_text() -> None:
    classes = {name: getattr(MPI, name) for name in MPI.__all__ if name.startswith("ERR_") and name != "ERR_LASTCODE"}
    assert sorted(classes.values()) == [*range(1, MPI.ERR_LASTCODE + 1)]
    texts = {MPI.Get_error_string(number) for number in classes.values()}
    assert len(texts) == len(classes) and MPI.Get_error_string(MPI.SUCCESS) == "no error"
    assert MPI.Get_error_string(MPI.ERR_LOCKTYPE) == "invalid locktype"
    assert MPI.Get_error_class(MPI.ERR_RANK) == MPI.ERR_RANK
    for unknown in (-1, MPI.ERR_LASTCODE + 1):
        with pytest.raises(MPI.Exception, match=f"no error code {unknown}") as caught:
            MPI.Get_error_string(unknown)
        assert caught.value == MPI.ERR_ARG


def test_an_exception_of_a_class_alone_has_its_text() -> None:
    error = MPI.Exception(MPI.ERR_RANK)
    assert (str(error), repr(error)) == ("invalid rank", f"MPI.Exception({MPI.ERR_RANK})")
    assert MPI.SUCCESS < error <= MPI.ERR_LASTCODE and error > MPI.Exception() and error >= error
    assert str(MPI.Exception(999)) == "invalid error class 999"


@pytest.mark.parametrize("owner", [*OBJECTS, *map(type, OBJECTS)], ids=_named)
def test_a_handle_that_is_missing_has_a_hint(owner: Any) -> None:
    with pytest.raises(NotImplementedError, match="without a handle in C"):
        owner.handle  # noqa: B018
    assert not hasattr(owner, "spam")


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (lambda: MPI.Comm.Join, "Comm.Join: ranks are started by"),
        (lambda: MPI.COMM_SELF.Shrink, "Intracomm.Shrink: a dead rank is named"),
        (lambda: MPI.COMM_SELF.Idup, "Intracomm.Idup: Dup returns when"),
        (lambda: MPI.Datatype.Create_f90_real, "Datatype.Create_f90_real: types by their size are"),
        (lambda: MPI.INT.Create_vector(1, 1, 1).Set_attr, "Datatype.Set_attr: keep what belongs"),
        (lambda: MPI.Prequest.Pready, "Prequest.Pready: a part of a message"),
        (lambda: MPI.MODE_RDONLY, "ringtree.mpi.MODE_RDONLY: files are the program's own"),
        (lambda: MPI.Add_error_class, "errors are raised"),
        (lambda: MPI.Flush_buffer, "Bsend keeps a copy"),
        (lambda: MPI._sizeof, "without a handle in C"),
    ],
)
def test_what_is_missing_has_a_hint(missing: Callable[[], object], expected: str) -> None:
    with pytest.raises(NotImplementedError, match=expected):
        missing()


@pytest.mark.parametrize("name", ["DATATYPE_NULL", "REQUEST_NULL", "OP_NULL", "GROUP_NULL", "INFO_NULL", "WIN_NULL"])
def test_a_null_handle_is_not_freed_but_by_free(name: str) -> None:
    null = getattr(MPI, name)
    null.free()
    with pytest.raises(MPI.Exception):
        null.Free()
    assert not null


@pytest.mark.parametrize("name", ["INT", "SUM", "INFO_ENV", "COMM_SELF", "GROUP_EMPTY"])
def test_a_predefined_handle_stays(name: str) -> None:
    handle = getattr(MPI, name)
    handle.free()
    if name in ("INT", "SUM", "INFO_ENV"):
        with pytest.raises(MPI.Exception, match="not freed"):
            handle.Free()
    elif name == "GROUP_EMPTY":
        handle.Free()
    assert handle and handle == getattr(MPI, name)


@pytest.mark.parametrize("make", [MPI.COMM_SELF.Dup, lambda: MPI.Win.Allocate(8)])
def test_errors_are_raised_whichever_program_asks_for_it(make: Callable[[], Any]) -> None:
    owner = make()
    owner.Set_errhandler(MPI.ERRORS_RETURN)
    found = owner.Get_errhandler()
    assert found == MPI.ERRORS_RETURN != MPI.ERRHANDLER_NULL and found and not MPI.Errhandler()
    found.Free()
    assert found == MPI.ERRHANDLER_NULL and owner.Get_errhandler() == MPI.ERRORS_RETURN
    MPI.ERRORS_RETURN.Free()
    assert repr(MPI.ERRORS_RETURN) == "MPI.ERRORS_RETURN" and MPI.ERRORS_RETURN
    for handler in (MPI.ERRORS_ARE_FATAL, MPI.ERRORS_ABORT, MPI.ERRHANDLER_NULL):
        with pytest.raises(NotImplementedError, match=rf"{handler!r}\): errors are raised; expected MPI.ERRORS_RETURN"):
            owner.Set_errhandler(handler)
    with pytest.raises(TypeError, match="got int; expected an Errhandler"):
        owner.Set_errhandler(1)
    owner.Free()
    with pytest.raises(MPI.Exception, match="was freed"):
        owner.Get_errhandler()


def test_free_ends_what_a_program_made() -> None:
    made: list[Any] = [
        MPI.INT.Create_contiguous(2),
        MPI.Op.Create(print),
        MPI.COMM_SELF.Dup(),
        MPI.COMM_SELF.group,
        MPI.Info.Create(),
        MPI.Win.Allocate(8),
        MPI.COMM_SELF.Isend(b"", 0, 77),
    ]
    for handle in made:
        handle.free()
        assert not handle
        handle.free()
    MPI.COMM_SELF.Recv(bytearray(1), 0, 77)


@pytest.mark.parametrize(
    "ask",
    [
        lambda group: group.size,
        lambda group: group.rank,
        lambda group: group.Incl([]),
        lambda group: group.Dup(),
        lambda group: group.Compare(group),
        lambda group: MPI.Group.Union(MPI.GROUP_EMPTY, group),
        MPI.COMM_SELF.Create,
        MPI.COMM_SELF.Create_group,
        lambda _: MPI.COMM_SELF.Create_group(MPI.Group([0, 1], 0)),
        lambda _: MPI.COMM_SELF.Create(MPI.Group([1], 0)),
    ],
)
def test_a_group_that_is_none_or_has_a_stranger_is_refused(ask: Callable[[Any], object]) -> None:
    with pytest.raises(MPI.Exception) as caught:
        ask(MPI.GROUP_NULL)
    assert caught.value == MPI.ERR_GROUP


def test_communicators_of_groups() -> None:
    assert MPI.COMM_WORLD.Create_group(MPI.GROUP_EMPTY) == MPI.COMM_NULL
    made = MPI.Intracomm.Create_from_group(MPI.COMM_SELF.group)
    assert made.size == 1
    made.Free()
    parent = MPI.Comm.Get_parent()
    assert parent == MPI.COMM_NULL and isinstance(parent, MPI.Intercomm) and not MPI.COMM_WORLD.Get_parent()


def test_attributes_of_a_communicator() -> None:
    keys = MPI.TAG_UB, MPI.IO, MPI.WTIME_IS_GLOBAL, MPI.UNIVERSE_SIZE, MPI.APPNUM, MPI.LASTUSEDCODE
    assert [MPI.COMM_SELF.Get_attr(key) for key in keys] == [2**31 - 1, MPI.ANY_SOURCE, 1, 1, 0, MPI.ERR_LASTCODE]
    with pytest.raises(MPI.Exception, match="no attribute 77") as caught:
        MPI.COMM_SELF.Get_attr(77)
    assert caught.value == MPI.ERR_KEYVAL
    with pytest.raises(MPI.Exception, match="split type 77"):
        MPI.COMM_SELF.Split_type(77)


def test_types_have_the_names_and_codes_of_mpi4py() -> None:
    column = MPI.INT.Create_vector(2, 1, 2)
    column.name = "column"
    assert (MPI.INT.name, column.name, column.Get_name()) == ("MPI_INT", "column", "column")
    codes = [(kind.typestr, kind.typechar, kind.tocode()) for kind in (MPI.DOUBLE, MPI.INT32_T, MPI.SINT32_T)]
    assert codes == [("f8", "d", "d"), ("i4", "i", "i4"), ("i4", "i", "i4")]
    assert MPI.DATATYPE_NULL.typestr == "" and MPI.F_INT == MPI.INTEGER and MPI.SIGNED_LONG == MPI.LONG
    with pytest.raises(ValueError, match="no typestring"):
        MPI.DOUBLE_INT.tocode()


def test_memory_of_mpi() -> None:
    ours = bytearray(b"abcd")
    memory = MPI.memory(ours)
    memory[:2] = 0
    assert bytes(ours) == b"\0\0cd" and memory.cast("h").tolist() == np.frombuffer(ours, "h").tolist()
    again = MPI.buffer.fromaddress(memory.address, 4)
    again[3] = 1
    assert ours[3] == 1 and memory.toreadonly().readonly and MPI.memory.frombuffer(ours, readonly=True).readonly
    assert MPI.memory.allocate(3, clear=True).tobytes() == b"\0\0\0" and not MPI.memory()
    with pytest.raises(MPI.Exception, match="memory of -1 bytes"):
        MPI.Alloc_mem(-1)
    assert (MPI.Aint_add(5, 3), MPI.Aint_diff(5, 3), MPI.Get_address(MPI.BOTTOM), MPI.Pcontrol(1)) == (8, 2, 0, None)


def twice(a: Any, b: Any, datatype: Any) -> Any:
    return a + b


def test_copies_of_named_handles_are_pickled() -> None:
    for one in (MPI.COMM_WORLD, MPI.COMM_SELF, MPI.COMM_NULL, MPI.MAX, MPI.LAND, MPI.GROUP_EMPTY, MPI.GROUP_NULL):
        assert pickle.loads(pickle.dumps(one)) is copy.copy(one) is one
        other = type(one)(one) if one else type(one)()
        again = pickle.loads(pickle.dumps(other))
        assert again == one and again is not one
    assert pickle.loads(pickle.dumps(MPI.Op.Create(twice)))(1, 2) == 3
    with pytest.raises(ValueError, match="a group cannot be pickled"):
        pickle.dumps(MPI.COMM_SELF.group)
    with pytest.raises(TypeError, match="got tuple; expected a Comm"):
        MPI.Comm((1, 2))  # type: ignore[arg-type]


PACKAGE = """
from ringtree import mpi
mpi.replace()
import mpi4py.rc
mpi4py.rc.threads = False
assert type(mpi4py.rc)().threads is True
for wrong in (lambda: setattr(mpi4py.rc, "thread", 1), lambda: mpi4py.rc(thread=1)):
    try:
        wrong()
        raise SystemExit("not refused")
    except TypeError as error:
        assert "mpi4py.rc has no 'thread'" in str(error)
assert not hasattr(mpi4py, "spam")
mpi4py.get_include()
"""


def test_a_bare_package_refuses_what_it_has_not() -> None:
    done = subprocess.run([sys.executable, "-c", PACKAGE], capture_output=True, text=True)
    assert "Missing: mpi4py.get_include: there are no headers in C" in done.stderr, done
