"""Communicators and groups: names, creation and end."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import mpi as MPI
from tests.mpi.tables import Row, check


def names(comm: MPI.Comm) -> Any:
    comm.name = "mine"
    return [comm.Get_rank(), comm.rank, comm.Get_size(), comm.size, comm.Get_name(), comm.Is_inter()]


def everyones(comm: MPI.Comm, value: int) -> list[int]:
    """The answers of the ranks of `comm`, in order."""
    out = np.empty(comm.size, int)
    comm.Allgather(np.array([value]), out)
    answers: list[int] = out.tolist()
    return answers


def split(comm: MPI.Comm) -> Any:
    part = comm.Split(comm.rank % 2, key=-comm.rank)
    outside = comm.Split(MPI.UNDEFINED if comm.rank else 0)
    assert (outside == MPI.COMM_NULL) is bool(comm.rank)
    return [part.rank, part.size, everyones(part, comm.rank)]


def duplicate(comm: MPI.Comm) -> Any:
    other = comm.Dup()
    assert comm.Compare(other) == MPI.CONGRUENT and comm.Compare(comm) == MPI.IDENT and comm != other
    total = sum(everyones(other, 1))
    other.Free()
    assert other == MPI.COMM_NULL and not other
    with pytest.raises(MPI.Exception, match="COMM_NULL"):
        other.Get_rank()
    return total


def groups(comm: MPI.Comm) -> Any:
    group = comm.Get_group().Excl([0])
    inside = group.Get_rank() != MPI.UNDEFINED
    made = comm.Create(group)
    assert bool(made) is inside
    again = comm.Create_group(group) if inside else MPI.COMM_NULL
    return [group.size, group.rank, everyones(again, comm.rank) if inside else None]


def alone(comm: MPI.Comm) -> Any:
    self = comm.Split(comm.rank)
    self.send("to me", 0)
    return [self.recv(), everyones(self, 3), self.rank, self.size]


ROWS: list[Row] = [
    ("names", names, lambda r, n: [r, r, n, n, "mine", False]),
    (
        "split",
        split,
        lambda r, n: [
            [s for s in range(n)[::-1] if s % 2 == r % 2].index(r),
            len([s for s in range(n) if s % 2 == r % 2]),
            [s for s in range(n)[::-1] if s % 2 == r % 2],
        ],
    ),
    ("duplicate", duplicate, lambda r, n: n),
    ("groups", groups, lambda r, n: [n - 1, r - 1 if r else MPI.UNDEFINED, list(range(1, n)) if r else None]),
    ("alone", alone, lambda r, n: ["to me", [3], 0, 1]),
]


@pytest.mark.parametrize("ranks", [2, 3])
def test_communicators(ranks: int) -> None:
    check(ROWS, ranks)


@pytest.mark.parametrize(
    ("made", "members"),
    [
        (lambda g: g.Incl([3, 0]), (3, 0)),
        (lambda g: g.Excl([1, 2]), (0, 3, 4)),
        (lambda g: g.Range_incl([(0, 4, 2)]), (0, 2, 4)),
        (lambda g: g.Range_excl([(4, 3, -1)]), (0, 1, 2)),
        (lambda g: MPI.Group.Union(g.Incl([1]), g.Incl([0, 1])), (1, 0)),
        (lambda g: MPI.Group.Union(MPI.GROUP_EMPTY, g), (0, 1, 2, 3, 4)),
        (lambda g: MPI.Group.Union(MPI.Group.Difference(MPI.GROUP_EMPTY, g), g.Incl([2])), (2,)),
        (lambda g: MPI.Group.Intersection(MPI.Group(g.members), g), (0, 1, 2, 3, 4)),
        (lambda g: MPI.Group.Difference(MPI.Group(g.members), g.Incl([0])), (1, 2, 3, 4)),
        (lambda g: MPI.Group.Intersection(g.Incl([4, 1]), g.Incl([1, 2])), (1,)),
        (lambda g: MPI.Group.Difference(g, g.Incl([0, 1])), (2, 3, 4)),
    ],
)
def test_groups_are_ranks_in_an_order(made: Any, members: tuple[int, ...]) -> None:
    whole = MPI.Group(range(5), 2)
    part = made(whole)
    assert part.members == members
    assert part.rank == (members.index(2) if 2 in members else MPI.UNDEFINED)
    assert part.Translate_ranks(None, whole) == list(members)


@pytest.mark.parametrize(
    ("asked", "error", "expected"),
    [
        (lambda g: g.Incl([9]), MPI.ERR_RANK, r"Incl: no rank 9 in this group: expected 0\.\.4"),
        (lambda g: g.Incl([-1]), MPI.ERR_RANK, "Incl: no rank -1"),
        (lambda g: g.Excl([0, 5]), MPI.ERR_RANK, "Excl: no rank 5"),
        (lambda g: g.Range_incl([(3, 6, 1)]), MPI.ERR_RANK, "no rank 5"),
        (lambda g: g.Range_excl([(0, 4, 0)]), MPI.ERR_ARG, "from 0 to 4 by steps of 0: expected another"),
        (lambda g: g.Translate_ranks([7]), MPI.ERR_RANK, "Translate_ranks: no rank 7"),
        (lambda g: g.Incl([]).Incl([0]), MPI.ERR_RANK, "no rank 0 in this group: expected none"),
    ],
)
def test_ranks_that_a_group_lacks_are_refused(asked: Any, error: int, expected: str) -> None:
    with pytest.raises(MPI.Exception, match=expected) as caught:
        asked(MPI.Group(range(5), 2))
    assert caught.value.Get_error_class() == error


def test_groups_compare() -> None:
    a = MPI.Group([0, 1, 2])
    kinds = [MPI.Group.Compare(a, MPI.Group(m)) for m in ([0, 1, 2], [2, 1, 0], [0, 1])]
    assert kinds == [MPI.IDENT, MPI.SIMILAR, MPI.UNEQUAL]
    a.Free()
    assert a == MPI.GROUP_NULL and not a and MPI.GROUP_EMPTY


def test_ranks_are_translated() -> None:
    a, b = MPI.Group([4, 2, 7]), MPI.Group([7, 4])
    assert a.Translate_ranks([0, 1, 2, MPI.PROC_NULL], b) == [1, MPI.UNDEFINED, 0, MPI.PROC_NULL]
    assert a.Translate_ranks() == [4, 2, 7]


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_world_is_joined_at_first_use_and_left_at_the_end() -> None:
    output = python(
        "from ringtree import mpi as MPI; a = MPI.Is_initialized(); MPI.COMM_WORLD.Barrier(); b = MPI.Is_initialized();"
        "print(a, b, MPI.COMM_SELF.size, MPI.COMM_SELF.sendrecv(4, 0), MPI.COMM_WORLD.Get_name());"
        "MPI.Finalize(); print(MPI.Is_finalized(), MPI.COMM_WORLD == MPI.COMM_NULL)"
    )
    assert output.splitlines() == ["False True 1 4 MPI_COMM_WORLD", "True True"]


def test_calls_after_finalize_are_named_as_such() -> None:
    output = python(
        "from ringtree import mpi as MPI; MPI.COMM_WORLD.Barrier(); MPI.Finalize()\n"
        "for call in (MPI.Init, lambda: MPI.COMM_WORLD.allreduce(1), MPI.COMM_SELF.Dup):\n"
        "    try: call()\n"
        "    except MPI.Exception as error: print(error.Get_error_class() == MPI.ERR_COMM, error)\n"
    )
    lines = output.splitlines()
    assert len(lines) == 3 and all("True" in line and "MPI.Finalize was called: no" in line for line in lines), output


@pytest.mark.parametrize(("given", "code"), [(3, 3), (0, 1), (256, 1), (259, 3), (-1, 255)])
def test_abort_ends_the_process_with_its_code(given: int, code: int) -> None:
    program = f"from ringtree import mpi as MPI; MPI.COMM_WORLD.Abort({given})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == code and f"MPI.Abort({given}) on rank 0 of 1" in done.stderr


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (lambda: MPI.Comm.Create_errhandler, "errors are raised"),
        (lambda: MPI.File, "numpy.save"),
        (lambda: MPI.COMM_WORLD.Spawn, "ringtree run"),
        (lambda: MPI.Intercomm().Ibcast(None), "Intercomm.Merge"),
        (lambda: MPI.COMM_WORLD.Psend_init, "a part of a message is a message"),
        (lambda: MPI.INT.Create_darray, "Create_subarray"),
    ],
)
def test_a_missing_name_gets_its_replacement(missing: Any, expected: str) -> None:
    with pytest.raises(NotImplementedError, match=expected):
        missing()


def test_other_names_are_unknown() -> None:
    assert not hasattr(MPI, "File") and not hasattr(MPI, "spam") and not hasattr(MPI.COMM_WORLD, "spam")


def test_a_death_is_an_mpi_exception() -> None:
    def work(comm: ringtree.Communicator) -> Any:
        if comm.rank == 0:
            comm.close()
            return None
        with pytest.raises(MPI.Exception, match="rank 0") as caught:
            MPI.Intracomm(comm).Barrier()
        return caught.value.Get_error_class()

    assert ringtree.spawn(work, 2, timeout_s=60)[1] == MPI.ERR_PROC_FAILED


@pytest.mark.parametrize(
    "name", ["COMM_WORLD", "COMM_SELF", "COMM_NULL", "IN_PLACE", "BOTTOM", "UNWEIGHTED", "WIN_NULL", "REQUEST_NULL"]
)
def test_handles_with_names_are_one_in_copies_and_pickles(name: str) -> None:
    """A copy of a program's settings may hold them."""
    handle = getattr(MPI, name)
    for again in (pickle.loads(pickle.dumps(handle)), copy.deepcopy({"kept": handle})["kept"]):
        assert again is handle


def test_other_communicators_are_not_pickled() -> None:
    with pytest.raises(ValueError, match="cannot be pickled: it is this process's own"):
        pickle.dumps(MPI.COMM_SELF.Dup())


def test_an_exception_is_equal_to_its_class() -> None:
    error = MPI.Exception(MPI.ERR_RANK, "no rank 9")
    assert error == MPI.ERR_RANK and error == MPI.Exception(MPI.ERR_RANK) and error != MPI.ERR_TAG
    assert error != "no rank 9" and len({error, MPI.Exception(MPI.ERR_RANK)}) == 1
    assert (error.error_code, error.error_class, error.error_string) == (MPI.ERR_RANK, MPI.ERR_RANK, "no rank 9")
    assert error and not MPI.Exception(MPI.SUCCESS)
