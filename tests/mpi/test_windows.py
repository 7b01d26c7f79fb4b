"""Windows: accesses of all kinds, whole beside others, between the calls that order them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import mpi as MPI
from ringtree.mpi.windows.window_target import REQUEST, Target
from ringtree.runtime.communicator.communicator import Communicator
from tests.mpi.tables import Row, check, ints

TURNS = 200


def opened(comm: Any, count: int = 4) -> tuple[Any, Any]:
    """A window of int64, and the rank's own memory in it."""
    win = MPI.Win.Allocate(8 * count, 8, comm=comm)
    return win, win.tomemory().view(np.int64)


def put_and_get(comm: Any) -> Any:
    win, mine = opened(comm)
    win.Fence()
    win.Put(np.array([comm.rank, 7]), (comm.rank + 1) % comm.size, 1)
    win.Fence()
    got = np.zeros(3, np.int64)
    win.Get(got, (comm.rank + 2) % comm.size)
    win.Fence()
    win.Free()
    return mine, got


def strided(comm: Any) -> Any:
    """A column there from a row here, and back to a column here."""
    win = MPI.Win.Create(there := np.zeros((3, 2)), 8, comm=comm)
    column = MPI.DOUBLE.Create_vector(3, 1, 2)
    here = np.zeros((3, 2))
    win.Fence()
    win.Put(np.arange(3.0) + comm.rank, (comm.rank + 1) % comm.size, [1, 1, column])
    win.Fence()
    win.Get([here, 1, column], comm.rank, [1, 1, column])
    win.Free()
    return there, here[:, 0]


def columns(rank: int, size: int) -> Any:
    column = np.arange(3.0) + (rank - 1) % size
    return np.stack([np.zeros(3), column], axis=1), column


def sums(comm: Any) -> Any:
    """All ranks add to all, many times and at once, without a lock."""
    win, mine = opened(comm)
    for _ in range(TURNS):
        for rank in range(comm.size):
            win.Accumulate(np.array([1, 2]), rank, 1)
    win.Fence()
    win.Free()
    return mine


def tickets(comm: Any) -> Any:
    """Every number is drawn once."""
    win, _ = opened(comm)
    drawn = []
    for _ in range(TURNS):
        old = np.zeros(1, np.int64)
        win.Fetch_and_op(np.array([1]), old, 0, 2)
        win.Flush(0)
        drawn.append(int(old[0]))
    win.Free()
    return sorted(comm.allreduce(drawn))


def swapped(comm: Any) -> Any:
    """A counter that only a swap that finds what was read before changes."""
    win, mine = opened(comm)
    for _ in range(20):
        seen, old = np.zeros(1, np.int64), np.full(1, -1)
        while seen[0] != old[0]:
            win.Get(seen, 0)
            win.Flush(0)
            win.Compare_and_swap(seen + 1, seen, old, 0)
            win.Flush(0)
    win.Free()
    return mine[0]


def locked(comm: Any) -> Any:
    """Reading, adding and writing under a lock of one's own."""
    win, mine = opened(comm)
    for _ in range(30):
        win.Lock(0)
        seen = np.zeros(1, np.int64)
        win.Get(seen, 0)
        win.Flush(0)
        win.Put(seen + 1, 0)
        win.Unlock(0)
    comm.Barrier()
    win.Free()
    return mine[0]


def shared_locks(comm: Any) -> Any:
    """All hold one lock at once, or the barrier would never end."""
    win, mine = opened(comm)
    win.Lock_all()
    comm.Barrier()
    before = np.zeros(1, np.int64)
    win.Get_accumulate(np.array([5]), before, comm.rank, op=MPI.MAX)
    win.Flush_all()
    win.Unlock_all()
    win.Free()
    return before[0], mine[0]


def epochs(comm: Any) -> Any:
    """Rank 0 writes to all the others, which let it."""
    win, mine = opened(comm)
    others = win.Get_group().Excl([0])
    if comm.rank == 0:
        win.Start(others)
        for rank in range(1, comm.size):
            win.Put(np.array([rank, rank]), rank)
        win.Complete()
    else:
        win.Post(win.Get_group().Incl([0]))
        win.Wait()
    found = mine.tolist()
    win.Free()
    return found


def side_by_side(comm: Any) -> Any:
    """Loads of memory that another rank stored to."""
    win = MPI.Win.Allocate_shared(8 * (comm.rank + 1), 8, comm=comm)
    memory, unit = win.Shared_query(comm.rank)
    memory.view(np.int64)[:] = comm.rank
    win.Fence()
    every = [win.Shared_query(rank)[0].view(np.int64).tolist() for rank in range(comm.size)]
    win.Fence()
    win.Accumulate(np.array([10]), (comm.rank + 1) % comm.size)
    win.Fence()
    first = memory.view(np.int64)[0]
    win.Free()
    return every, unit, first


def dynamic(comm: Any) -> Any:
    win = MPI.Win.Create_dynamic(comm=comm)
    win.Attach(mine := ints(1, 2, 3))
    places = comm.allgather(MPI.Get_address(mine))
    win.Fence()
    win.Put(ints(9), (comm.rank + 1) % comm.size, places[(comm.rank + 1) % comm.size] + 4)
    win.Fence()
    with pytest.raises(MPI.Exception, match="no attached memory"):
        got = ints(0)
        win.Get(got, comm.rank, 8)
        win.Flush(comm.rank)
    win.Detach(mine)
    win.Free()
    return mine


def read_atomically(comm: Any) -> Any:
    """NO_OP reads, and takes nothing from an origin."""
    win, mine = opened(comm)
    mine[:] = np.arange(4) + 10 * comm.rank
    comm.Barrier()
    peer = (comm.rank + 1) % comm.size
    row, again, one, nothing = (np.full(n, -1) for n in (3, 2, 1, 0))
    win.Get_accumulate([None, 0, MPI.INT], row, peer, 1, MPI.NO_OP)
    win.Rget_accumulate(nothing, again, peer, [2, 2, MPI.LONG], MPI.NO_OP).Wait()
    win.Fetch_and_op(None, one, peer, 3, MPI.NO_OP)
    win.Flush(peer)
    with pytest.raises(ValueError, match="2 of int64: expected one element each"):
        win.Fetch_and_op(None, again, peer, 0, MPI.NO_OP)
    with pytest.raises(ValueError, match="2 of int64, 1 of int64: expected one element each"):
        win.Fetch_and_op(again, one, peer, 0, MPI.NO_OP)  # as mpi4py has it
    for result in (np.zeros(1, int), np.zeros(2)):  # nothing is written where the result has no room
        with pytest.raises(ValueError, match=r"the result has \d+ bytes of \w+; expected 16 of int64, as the origin"):
            win.Get_accumulate(again, result, peer)
    comm.Barrier()
    win.Free()
    return row - 10 * peer, again - 10 * peer, one - 10 * peer, mine - 10 * comm.rank


def one_of_three_fails(comm: Any) -> Any:
    """The Flush that raises has waited for the others, too."""
    win = MPI.Win.Create_dynamic(comm=comm)
    win.Attach(mine := ints(1, 2, 3))
    first, bad, last = ints(0), ints(0), ints(0)
    place = MPI.Get_address(mine)
    for got, at in ((first, place), (bad, 8), (last, place + 8)):
        win.Get(got, comm.rank, at)
    with pytest.raises(MPI.Exception, match="no attached memory"):
        win.Flush(comm.rank)
    win.Flush(comm.rank)
    win.Free()
    return first[0], last[0]


def requests(comm: Any) -> Any:
    win, mine = opened(comm)
    peer = (comm.rank + 1) % comm.size
    got, before = np.zeros(1, np.int64), np.zeros(1, np.int64)
    win.Lock(peer)
    win.Rput(np.array([3]), peer).Wait()
    win.Raccumulate(np.array([4]), peer).Wait()
    MPI.Request.Waitall([win.Rget_accumulate(np.array([2]), before, peer, op=MPI.PROD), win.Rget(got, peer)])
    win.Unlock(peer)
    comm.Barrier()
    win.Free()
    return before[0], got[0], mine[0]


def large(comm: Any) -> Any:
    win, mine = opened(comm, 100_000)
    win.Fence()
    win.Put(np.arange(100_000) + comm.rank, (comm.rank + 1) % comm.size)
    win.Fence()
    got = np.zeros(100_000, np.int64)
    win.Get(got, (comm.rank + 1) % comm.size)
    win.Free()
    return mine[-1], got[-1]


ROWS: list[Row] = [
    ("Put, Get", put_and_get, lambda r, n: ([0, (r - 1) % n, 7, 0], [0, (r + 1) % n, 7])),
    ("types", strided, columns),
    ("Accumulate", sums, lambda r, n: [0, n * TURNS, 2 * n * TURNS, 0]),
    ("Fetch_and_op", tickets, lambda r, n: [*range(n * TURNS)]),
    ("Compare_and_swap", swapped, lambda r, n: 0 if r else 20 * n),
    ("Lock", locked, lambda r, n: 0 if r else 30 * n),
    ("Lock_all", shared_locks, lambda r, n: (0, 5)),
    ("Post, Start", epochs, lambda r, n: [r, r, 0, 0]),
    ("Allocate_shared", side_by_side, lambda r, n: ([[k] * (k + 1) for k in range(n)], 8, r + 10)),
    ("Create_dynamic", dynamic, lambda r, n: [1, 9, 3]),
    ("NO_OP", read_atomically, lambda r, n: ([1, 2, 3], [2, 3], [3], [0, 1, 2, 3])),
    ("a Get that fails", one_of_three_fails, lambda r, n: (1, 3)),
    ("requests", requests, lambda r, n: (7, 14, 14)),
    ("large", large, lambda r, n: (99_999 + (r - 1) % n, 99_999 + r)),
]


@pytest.mark.parametrize("ranks", [1, 3])
def test_windows(ranks: int) -> None:
    check([row for row in ROWS if ranks > 1 or row[0] != "Post, Start"], ranks)


def refused(comm: ringtree.Communicator) -> None:
    win, _ = opened(MPI.Intracomm(comm))
    with pytest.raises(MPI.Exception, match="bytes 24 to 40 of rank 1's window, which has 32") as failure:
        win.Put(np.zeros(2), 1, 3)
    assert failure.value.Get_error_class() == MPI.ERR_RMA_RANGE
    with pytest.raises(ValueError, match="one element each"):
        win.Fetch_and_op(np.zeros(2), np.zeros(2), 0)
    with pytest.raises(MPI.Exception, match="expected Start before"):
        win.Complete()
    win.Free()
    with pytest.raises(MPI.Exception, match="WIN_NULL"):
        win.Fence()


def test_what_does_not_fit_is_refused() -> None:
    ringtree.spawn(refused, 2, timeout_s=60)


def in_two_threads(act: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            act(number)
        except BaseException as failure:  # noqa: BLE001  # the main thread raises it
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def put_at_once(comm: ringtree.Communicator) -> list[int]:
    """Two threads, each of which pauses once it has sent the first message of a Put, until the other has, too. The
    first is the last to go on."""
    win, mine = opened(MPI.Intracomm(comm), 3000)
    send, both, came = Communicator.isend, threading.Barrier(2), list[int]()

    def paused(self: Communicator, x: Any, dst: int, tag: int = 0) -> Any:
        work = send(self, x, dst, tag)
        if tag == REQUEST and threading.current_thread() is not threading.main_thread():
            came.append(threading.get_ident())
            try:
                both.wait(0.1)
            except threading.BrokenBarrierError:  # one Put waits for the other
                return work
            if came[0] == threading.get_ident():
                time.sleep(0.1)
        return work

    def put(number: int) -> None:
        win.Put(np.full(1000 * (number + 1), number + 1), (comm.rank + 1) % comm.size, 1000 * number)

    Communicator.isend = paused  # type: ignore[method-assign]
    in_two_threads(put)
    win.Fence()
    win.Free()
    return [int(mine[0]), int(mine[1000]), int(mine[-1])]


def flush_at_once(comm: ringtree.Communicator) -> list[int]:
    """A thread flushes while another's Flush waits for the same answer, which comes late."""
    answer, got, found = Target._answer, np.zeros(1, np.int64), list[int]()

    def late(self: Target, *args: Any) -> None:
        time.sleep(0.1)
        answer(self, *args)

    def flush(number: int) -> None:
        time.sleep(0.03 * number)
        win.Flush(comm.rank)
        found.append(int(got[0]))

    Target._answer = late  # type: ignore[method-assign]
    win, mine = opened(MPI.Intracomm(comm), 1)
    mine[0] = 7
    win.Get(got, comm.rank)
    in_two_threads(flush)
    win.Free()
    return found


@pytest.mark.parametrize(("act", "expected"), [(put_at_once, [1, 2, 2]), (flush_at_once, [7, 7])])
def test_two_threads(act: Callable[[ringtree.Communicator], list[int]], expected: list[int]) -> None:
    assert ringtree.spawn(act, 2, timeout_s=5) == [expected] * 2


PROGRAM = """
from ringtree import mpi as MPI
win = MPI.Win.Allocate(8, comm=MPI.COMM_WORLD)
win.Put(bytes(8), (MPI.COMM_WORLD.rank + 1) % 2)
MPI.COMM_WORLD.Barrier()
print("end")
"""


def test_a_program_ends_with_a_window_open() -> None:
    command = [sys.executable, "-m", "ringtree.cli", "run", "-n", "2", sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("end") == 2
