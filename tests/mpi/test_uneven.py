"""Collectives whose blocks differ in length, with counts and displacements in every accepted form."""

from __future__ import annotations

import re
from array import array
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import mpi as MPI
from ringtree.errors import Mismatch
from tests.mpi.tables import Row, Started, check, ints


def counts(comm: MPI.Comm) -> list[int]:
    """Rank r has r + 1 elements."""
    return list(range(1, comm.size + 1))


def mine(comm: MPI.Comm) -> Any:
    return ints(*[comm.rank] * (comm.rank + 1))


def total(n: int) -> int:
    return n * (n + 1) // 2


def joined(n: int) -> list[int]:
    return [s for s in range(n) for _ in range(s + 1)]


def apart(n: int) -> list[int]:
    """The blocks of `joined`, each at a multiple of n."""
    return [v for s in range(n) for v in [s] * (s + 1) + [-1] * (n - s - 1)]


def gather(comm: MPI.Comm) -> Any:
    out = ints(*[-1] * total(comm.size))
    comm.Gatherv(mine(comm), [out, counts(comm)] if comm.rank == 0 else None)
    return out


def gather_apart(comm: MPI.Comm) -> Any:
    n = comm.size
    out = ints(*[-1] * n * n)
    recv = [out, counts(comm), range(0, n * n, n), MPI.INT] if comm.rank == n - 1 else None
    comm.Gatherv([mine(comm), MPI.INT], recv, root=n - 1)
    return out


def gather_in_place(comm: MPI.Comm) -> Any:
    out = ints(*[0] * total(comm.size))
    comm.Gatherv(
        MPI.IN_PLACE if comm.rank == 0 else mine(comm), (out, (counts(comm), None)) if comm.rank == 0 else None
    )
    return out


def scatter(comm: MPI.Comm) -> Any:
    n, out = comm.size, ints(*[-1] * (comm.rank + 1))
    comm.Scatterv([ints(*apart(n)), (counts(comm), range(0, n * n, n)), MPI.INT] if comm.rank == 0 else None, out)
    return out


def all_gather(comm: MPI.Comm) -> Any:
    out = array("i", [-1] * total(comm.size))
    comm.Allgatherv(mine(comm), [out, counts(comm), MPI.INT])
    return out


def all_gather_apart(comm: MPI.Comm) -> Any:
    n = comm.size
    out = ints(*[-1] * n * n)
    comm.Allgatherv([mine(comm), comm.rank + 1], [out, (counts(comm), n), MPI.INT])
    return out


def all_gather_backwards(comm: MPI.Comm) -> Any:
    out = bytearray(comm.size)
    comm.Allgatherv(bytes([comm.rank]), [out, (1, range(comm.size - 1, -1, -1)), MPI.BYTE])
    return list(out)


def all_gather_in_place(comm: MPI.Comm) -> Any:
    n, r = comm.size, comm.rank
    out = ints(*[-1] * n * n)
    out[r * n : r * n + r + 1] = r
    comm.Iallgatherv(MPI.IN_PLACE, [out, (counts(comm), n), MPI.INT]).Wait()
    return out


def all_to_all(comm: MPI.Comm) -> Any:
    """Rank s sends rank d s + d elements."""
    n, r = comm.size, comm.rank
    sent = [r + d for d in range(n)]
    x, out = np.repeat(10 * r + np.arange(n), sent), np.full(sum(sent) + n, -1)
    comm.Alltoallv([x, sent], [out, (sent, None), MPI.LONG])
    return out


def all_to_all_apart(comm: MPI.Comm) -> Any:
    n, r = comm.size, comm.rank
    x, out = ints(*range(100 * r, 100 * r + 2 * n)), ints(*[-1] * 3 * n)
    comm.Ialltoallv([x, (1, 2), MPI.INT], [out, (1, 3), MPI.INT]).wait()
    return out


def reduce_scatter(comm: MPI.Comm) -> Any:
    x, out = ints(*range(total(comm.size))), ints(*[-1] * (comm.rank + 1))
    comm.Reduce_scatter(x, out)
    inside = x.copy()
    comm.Reduce_scatter(MPI.IN_PLACE, inside, counts(comm), MPI.MAX)
    return [out, inside[: comm.rank + 1]]


def halves(n: int) -> list[int]:
    """The blocks of 2 n + 1 elements without counts: rank 0 has one more."""
    return [3] + [2] * (n - 1)


def gather_without_counts(comm: MPI.Comm) -> Any:
    out = ints(*[-1] * (2 * comm.size + 1))
    comm.Gatherv(ints(*[comm.rank] * halves(comm.size)[comm.rank]), out)
    return out


def scatter_without_counts(comm: MPI.Comm) -> Any:
    out = ints(*[-1] * halves(comm.size)[comm.rank])
    comm.Scatterv([ints(*range(2 * comm.size + 1)), MPI.INT] if comm.rank == 0 else None, out)
    return out


def all_gather_without_counts(comm: MPI.Comm) -> Any:
    out = ints(*[-1] * (2 * comm.size + 1))
    comm.Allgatherv(ints(*[comm.rank] * halves(comm.size)[comm.rank]), out)
    return out


def all_to_all_without_counts(comm: MPI.Comm) -> Any:
    n = comm.size
    out = ints(*[-1] * n * halves(n)[comm.rank])
    comm.Alltoallv(ints(*[comm.rank] * (2 * n + 1)), out)
    return out


def divided(n: int) -> list[int]:
    return [rank for rank, size in enumerate(halves(n)) for _ in range(size)]


ROWS: list[Row] = [
    ("Gatherv without counts", gather_without_counts, lambda r, n: divided(n) if r == 0 else [-1] * (2 * n + 1)),
    ("Scatterv without counts", scatter_without_counts, lambda r, n: [k for k, s in enumerate(divided(n)) if s == r]),
    ("Allgatherv without counts", all_gather_without_counts, lambda r, n: divided(n)),
    ("Alltoallv without counts", all_to_all_without_counts, lambda r, n: sorted([*range(n)] * halves(n)[r])),
    ("Gatherv", gather, lambda r, n: joined(n) if r == 0 else [-1] * total(n)),
    ("Gatherv apart", gather_apart, lambda r, n: apart(n) if r == n - 1 else [-1] * n * n),
    ("Gatherv in place", gather_in_place, lambda r, n: joined(n) if r == 0 else [0] * total(n)),
    ("Scatterv", scatter, lambda r, n: [r] * (r + 1)),
    ("Allgatherv", all_gather, lambda r, n: joined(n)),
    ("Allgatherv apart", all_gather_apart, lambda r, n: apart(n)),
    ("Allgatherv backwards", all_gather_backwards, lambda r, n: list(range(n))[::-1]),
    ("Allgatherv in place", all_gather_in_place, lambda r, n: apart(n)),
    ("Alltoallv", all_to_all, lambda r, n: [10 * s + r for s in range(n) for _ in range(s + r)] + [-1] * n),
    ("Alltoallv apart", all_to_all_apart, lambda r, n: [v for s in range(n) for v in (100 * s + 2 * r, -1, -1)]),
    (
        "Reduce_scatter",
        reduce_scatter,
        lambda r, n: [[v * n for v in range(total(r), total(r + 1))], list(range(total(r), total(r + 1)))],
    ),
]


STARTED: list[Row] = [
    (f"{name}, started", lambda comm, call=call: call(Started(comm)), expected) for name, call, expected in ROWS
]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_uneven_blocks(ranks: int) -> None:
    check(ROWS + STARTED, ranks)


def begun(comm: Any, name: str, sent: int = 2, received: int = 2, root: int = 0) -> Any:
    """The request of that call, where each rank sends and receives so many bytes from each."""
    n = comm.size
    x, out = bytes([comm.rank]) * (sent * n), bytearray(received * n)
    blocks = [x, [sent] * n], [out, [received] * n]
    places = [*range(0, sent * n, sent)], [*range(0, received * n, received)]
    arguments: dict[str, tuple[Any, ...]] = {
        "gatherv": (x[:sent], blocks[1], root),
        "scatterv": (blocks[0], out[:received], root),
        "alltoallv": blocks,
        "alltoallw": ([*blocks[0], places[0], [MPI.BYTE] * n], [*blocks[1], places[1], [MPI.BYTE] * n]),
    }
    if name[0] == "I":
        return getattr(comm, name)(*arguments[name[1:]])
    described = getattr(comm, name)(*arguments[name.removesuffix("_init").lower()])
    described.Start()
    return described


FORMS = [form for name in ("gatherv", "scatterv", "alltoallv", "alltoallw")
         for form in (f"I{name}", f"{name.capitalize()}_init")]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_started_call_waits_for_no_other_rank(form: str) -> None:
    """A message after the start lets the other rank begin."""

    def work(comm: ringtree.Communicator) -> None:
        world = MPI.Intracomm(comm)
        for root in (0, 1):
            if comm.rank == 0:
                request = begun(world, form, root=root)
                world.Send(b"go", 1)
                request.Wait()
            else:
                world.Recv(bytearray(2), 0)
                begun(world, form, root=root).Wait()

    ringtree.spawn(work, 2, timeout_s=3)


@pytest.mark.parametrize(
    ("form", "differing", "expected"),
    [
        ("Igatherv", {"sent": 3}, "rank [01] sent 3 bytes of uint8 .* where rank [01] receives 2"),
        ("Iscatterv", {"received": 1}, "rank [01] sent 2 bytes of uint8 .* where rank [01] receives 1"),
        ("Ialltoallv", {"sent": 3, "received": 3}, "rank [01] sent [23] bytes .* where rank [01] receives [23]"),
        ("Ialltoallw", {"sent": 3, "received": 3}, "rank [01] sent [23] bytes .* where rank [01] receives [23]"),
        ("Igatherv", {"root": 1}, r"gather\(uint8, count 0, root [01]\)"),
        ("Iscatterv", {"root": 1}, r"scatter\(uint8, count 0, root [01]\)"),
    ],
)
def test_ranks_that_start_different_calls_get_an_error(form: str, differing: dict[str, int], expected: str) -> None:
    def work(comm: ringtree.Communicator) -> str:
        world = MPI.Intracomm(comm)
        with pytest.raises(MPI.Exception) as caught:
            begun(world, form, **(differing if comm.rank else {})).Wait()
            world.Barrier()
        return str(caught.value)

    for text in ringtree.spawn(work, 2, timeout_s=20):
        assert re.search(expected, text), text
        assert "\n" not in text


def test_too_few_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="recvcounts has 0 counts; expected one a rank, 1"):
        MPI.COMM_WORLD.Reduce_scatter(np.ones(2), np.ones(2), [])


def test_counts_that_the_root_does_not_expect_are_refused() -> None:
    def work(comm: ringtree.Communicator) -> Any:
        world = MPI.Intracomm(comm)
        if world.rank:
            with suppress(MPI.Exception):  # the root's end may come before what it sends is gone
                world.Gatherv(ints(1, 2, 3), None)
            with suppress(Mismatch):  # or when it is: the root has never made the call
                comm.close()
            return None
        with pytest.raises(MPI.Exception, match=r"the ranks send \[4, 12\] bytes; expected \[12, 4\]") as caught:
            world.Gatherv(ints(0), [ints(0, 0, 0, 0), [3, 1]])
        comm.close()
        return caught.value.Get_error_class()

    assert ringtree.spawn(work, 2, timeout_s=60) == [MPI.ERR_TRUNCATE, None]


@pytest.mark.parametrize("name", ["Allgatherv", "Iallgatherv", "Scatterv"])
def test_a_block_of_the_wrong_length_on_one_rank_ends_the_others_waits(name: str) -> None:
    """7 elements of bytes without counts are 3, 2 and 2; here the last rank, or the root of Scatterv, has another."""

    def work(comm: ringtree.Communicator) -> str:
        world = MPI.Intracomm(comm)
        with pytest.raises(MPI.Exception) as caught:
            if "gather" in name:
                request = getattr(world, name)(bytes(3 if world.rank != 1 else 2), bytearray(7))
            else:
                request = world.Scatterv(bytes(7) if world.rank == 0 else None, bytearray(2))
            if request is not None:
                request.Wait()
            world.Barrier()
        return str(caught.value)

    own = "rank 2 sends 3 bytes; expected 2" if "gather" in name else "rank 0 receives 2 bytes; expected 3"
    texts = ringtree.spawn(work, 3, timeout_s=20)
    assert all(own in text and "\n" not in text for text in texts), texts
