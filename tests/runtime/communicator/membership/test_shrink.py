"""The survivors of a group go on in a new one: all in the same, whoever dies, whenever."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from ringtree import Mismatch, PeerDied, Poisoned, TimedOut, spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.membership.survivors import Survivors
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.chaos.leftovers import open_here
from tests.runtime.conftest import available
from tests.runtime.outlived import Ranks, end
from tests.waiting import Event

native = pytest.mark.skipif(not available("shm"), reason="the native engine is not built")
FAILURES = (PeerDied, Poisoned, TimedOut, Mismatch)
ONES = np.ones(1000)


def until_it_fails(comm: Communicator) -> str:
    """Calls until one fails; the error."""
    try:
        while True:
            comm.all_reduce(ONES)
    except FAILURES as error:
        return str(error)


def works(comm: Communicator) -> bool:
    """Whether collectives, messages and sub-groups of a group give what they should."""
    total = comm.all_reduce(ONES * (comm.rank + 1))[0] == comm.size * (comm.size + 1) / 2
    before, behind = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    other = comm.sendrecv(np.array([comm.rank]), behind, np.empty(1, np.int64), before)
    half = comm.split(comm.rank % 2)
    assert half is not None
    ranks = half.all_gather(np.array([comm.rank]))
    comm.barrier()  # over hosts groups are made at rank 0, which may end then
    return bool(total and other[0] == before and (ranks % 2 == comm.rank % 2).all())


def die(_: Communicator) -> None:
    end()


def close(comm: Communicator) -> None:
    comm.close()
    time.sleep(0.3)  # it lives on, and is no member


def abort(comm: Communicator) -> None:
    comm.abort("enough")


def differ(comm: Communicator) -> None:
    with pytest.raises(FAILURES):
        comm.all_reduce(ONES[1:])


@native
@pytest.mark.parametrize(
    ("fault", "culprits", "survivors", "cause"),
    [
        (die, (2,), (0, 1, 3), "rank 2 died"),
        (die, (0,), (1, 2, 3), "rank 0 died"),
        (die, (1, 3), (0, 2), "died"),
        (close, (1,), (0, 2, 3), "rank 1 left"),
        (abort, (1,), (0, 1, 2, 3), "rank 1 aborted the group: enough"),
        (differ, (1,), (0, 1, 2, 3), "count 999"),
    ],
)
def test_survivors_go_on(
    fault: Callable[[Communicator], None], culprits: tuple[int, ...], survivors: tuple[int, ...], cause: str
) -> None:
    def act(comm: Communicator) -> Any:
        comm.barrier()
        if comm.rank in culprits:
            fault(comm)
            if comm.rank not in survivors:
                return None
        error = until_it_fails(comm)
        began_s = time.monotonic()
        after = comm.shrink()
        took_s = time.monotonic() - began_s
        with pytest.raises(RuntimeError, match="closed"):
            comm.barrier()
        return after.rank, after.former_ranks, after.ranks, works(after), cause in after.first_cause, error, took_s

    with Ranks(4, act) as ranks:
        found = {rank: report for rank, report in ranks.reports().items() if report}
    assert tuple(found) == survivors
    for rank, (new, former, numbers, right, has_cause, _, took_s) in found.items():
        assert (former, numbers) == (survivors, tuple(range(len(survivors))))
        assert former[new] == rank
        assert right
        assert has_cause, found
        assert took_s < 5


@native
def test_one_death_after_the_other_leaves_one() -> None:
    def act(comm: Communicator) -> Any:
        seen = []
        while comm.size > 1:
            if comm.rank == comm.size // 2 and works(comm):
                end()
            works(comm)
            until_it_fails(comm)
            comm = comm.shrink()
            seen.append(comm.former_ranks)
        return seen, comm.all_reduce(ONES)[0]

    with Ranks(4, act) as ranks:
        [(seen, total)] = ranks.reports().values()
    assert (seen, total) == ([(0, 1, 3), (0, 2), (0,)], 1.0)


@native
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_death_while_they_shrink_leaves_one_group(seed: int) -> None:
    """A second rank dies at any moment of the first ones' way to their group."""
    draw = Random(f"death while shrinking {seed}")
    second, after_s = draw.randrange(4), draw.uniform(0, 0.02)

    def act(comm: Communicator) -> Any:
        comm.barrier()
        if comm.rank == 4:
            end()
        until_it_fails(comm)
        if comm.rank == second:
            threading.Timer(after_s, end).start()
        keys = []
        while True:
            comm = comm.shrink()
            keys.append((comm.key, comm.former_ranks))
            if comm.size == 3:
                return keys, works(comm)
            until_it_fails(comm)

    with Ranks(5, act) as ranks:
        found = ranks.reports()
    assert sorted(found) == [rank for rank in range(4) if rank != second]
    assert len({tuple(keys) for keys, _ in found.values()}) == 1, found
    assert all(right for _, right in found.values())


def stand_still() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)


@native
@pytest.mark.parametrize(
    ("moment", "fault", "second"),
    [
        ("has come", end, 0),
        pytest.param("has come", stand_still, 1, marks=pytest.mark.slow),
        ("makes the group", end, 0),
        ("makes the group", end, 2),
        ("has the group", end, 0),
        ("has the group", end, 2),
        pytest.param("has the group", stand_still, 0, marks=pytest.mark.slow),
    ],
)
def test_all_have_the_group_or_none(moment: str, fault: Callable[..., Any], second: int) -> None:
    """A member dies, or stands still, at that moment: the others begin anew without it, and return one group."""

    def doomed() -> None:
        if moment == "has come":
            whole = Survivors._decided

            def decided(self: Survivors, *arguments: Any) -> Any:
                self._endpoint.arrive(self.turn + 1, False, [])
                return fault() or whole(self, *arguments)

            Survivors._decided = decided  # type: ignore[method-assign]
        elif moment == "makes the group":
            Communicator._of = lambda *_: fault()  # type: ignore[method-assign]
        else:
            Survivors.made = lambda *_: fault()  # type: ignore[method-assign]

    def act(comm: Communicator) -> Any:
        comm.barrier()
        if comm.rank == 3:
            end()
        if comm.rank == second:
            doomed()
        until_it_fails(comm)
        after = comm.shrink(timeout_s=2.0 if fault is stand_still else None)
        return after.former_ranks, after.key, works(after)

    with Ranks(4, act) as ranks:
        survivors = tuple(rank for rank in range(3) if rank != second)
        found = {rank: ranks.report(rank) for rank in survivors}
    assert {former for former, _, _ in found.values()} == {survivors}
    assert len({key for _, key, _ in found.values()}) == 1
    assert all(right for _, _, right in found.values())


@native
def test_one_that_stands_still_is_left_out_and_hears_of_it() -> None:
    """It goes on while the others work in their group."""

    def act(comm: Communicator) -> Any:
        comm.barrier()
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        error = until_it_fails(comm)
        try:
            after = comm.shrink(timeout_s=0.5)
        except Poisoned as left_out:
            with pytest.raises(RuntimeError, match="closed"):
                comm.barrier()
            return error, str(left_out)
        right = []
        until_s = time.monotonic() + 1.5
        while after.broadcast(np.array([time.monotonic() < until_s]))[0]:
            right.append(works(after))
        return after.former_ranks, all(right)

    with Ranks(3, act, timeout_s=1.0) as ranks:
        time.sleep(2.5)
        ranks.signal(1, signal.SIGCONT)
        found = ranks.reports()
    assert found[0] == found[2] == ((0, 2), True)
    error, left_out = found[1]
    assert "rank 1" in error
    assert "have gone on without rank 1" in left_out


@native
@pytest.mark.parametrize("after_s", [0.0, 0.1])  # before the other has begun its attempt, mostly, or in it
@pytest.mark.parametrize("fails", [0, 1])
def test_who_waits_for_one_that_could_not_make_the_group_tries_again_with_it(fails: int, after_s: float) -> None:
    """Its first attempt fails for a reason of its own, and nobody dies: the other must not wait for it meanwhile."""

    def act(comm: Communicator) -> Any:
        if comm.rank == 2:
            end()
        until_it_fails(comm)

        def of(*given: Any) -> Any:
            comm._of = made
            if comm.rank == fails:
                time.sleep(after_s)
                raise RuntimeError("no room just now")
            return made(*given)

        made, comm._of = comm._of, of
        after = comm.shrink(timeout_s=10.0)
        return after.former_ranks, works(after)

    with Ranks(3, act) as ranks:
        assert [ranks.report(rank) for rank in range(2)] == [((0, 1), True)] * 2


@native
def test_a_machine_that_stood_still_leaves_nobody_out() -> None:
    """All stand still for longer than the survivors wait for each other, and 2 has yet to come."""
    comes = Event()

    def act(comm: Communicator) -> Any:
        if comm.rank == 3:
            end()
        until_it_fails(comm)
        if comm.rank == 2:
            comes.wait()
        after = comm.shrink(timeout_s=1.5)
        return after.former_ranks, works(after)

    with Ranks(4, act) as ranks:
        time.sleep(0.7)
        for still in (signal.SIGSTOP, signal.SIGCONT):
            for rank in range(3):
                ranks.signal(rank, still)
            time.sleep(1.6 if still == signal.SIGSTOP else 0.2)
        comes.set()
        assert [ranks.report(rank) for rank in range(3)] == [((0, 1, 2), True)] * 3


@native
def test_ranks_that_are_named_are_left_out_of_a_healthy_group() -> None:
    def act(comm: Communicator) -> Any:
        comm.barrier()
        if comm.rank in (1, 3):
            return until_it_fails(comm)
        after = comm.shrink([1, 3] if comm.rank == 0 else [3])
        return after.former_ranks, after.first_cause, works(after)

    with Ranks(5, act) as ranks:
        found = ranks.reports()
    assert found[0] == found[2] == found[4] == ((0, 2, 4), "", True)
    for rank in (1, 3):
        assert "the group has gone on without ranks 1, 3" in found[rank]


@pytest.mark.parametrize("engine", ["shm", "reference"])
def test_a_healthy_group_is_made_anew(engine: str) -> None:
    def act(comm: Communicator) -> Any:
        part = comm.split(0)
        after = comm.shrink()
        assert part is not None
        with pytest.raises(RuntimeError, match="closed"):
            part.barrier()
        return after.rank, after.former_ranks, after.first_cause, works(after)

    if not available(engine):
        pytest.skip("the engine is not built")
    found = spawn(act, 3, engine=engine, threads=in_threads(engine))
    assert found == [(rank, (0, 1, 2), "", True) for rank in range(3)]


@native
def test_a_part_of_a_group_shrinks_alone() -> None:
    """The others of the world go on in theirs."""

    def act(comm: Communicator) -> Any:
        part = comm.split(comm.rank // 3)
        assert part is not None
        if comm.rank == 4:
            end()
        if comm.rank < 3:
            return works(part)
        until_it_fails(part)
        after = part.shrink()
        return after.former_ranks, works(after)

    with Ranks(6, act) as ranks:
        found = ranks.reports()
    assert found == {0: True, 1: True, 2: True, 3: ((0, 2), True), 5: ((0, 2), True)}


@native
@pytest.mark.parametrize("fails", [pytest.param(False, marks=pytest.mark.slow), True])
def test_nothing_is_left_of_the_groups_before(fails: bool) -> None:
    """Descriptors, mappings and threads after many groups are those after a few, but for what is about to end."""

    def counts() -> tuple[int, int, int]:
        gc.collect()
        with open("/proc/self/maps") as maps:
            shared = sum("memfd" in line for line in maps)
        return open_here(), shared, threading.active_count()

    def act(comm: Communicator) -> Any:
        levels = []
        for _ in range(10):
            part = comm.split(comm.rank % 2)
            assert part is not None
            comm.empty(100)[:] = part.all_reduce(ONES)[:100]
            if fails and comm.rank == 0:
                comm.abort("again")
            if fails:
                until_it_fails(comm)
            comm = comm.shrink()
            comm.all_reduce(ONES)
            levels.append(counts())
        return levels

    with Ranks(3, act) as ranks:
        found = ranks.reports()
    assert len(found) == 3
    for levels in found.values():
        assert (np.min(levels[-3:], 0) <= np.min(levels[3:6], 0)).all(), levels


@native
@pytest.mark.parametrize("timeout_s", [2.2e6, float("inf")])
def test_no_time_limit_is_too_long_for_the_kernel(timeout_s: float) -> None:
    assert spawn(lambda comm: works(comm.shrink(timeout_s=timeout_s)), 3) == [True] * 3


@native
@pytest.mark.parametrize(
    ("leave_out", "timeout_s", "expected"),
    [
        ([0], None, "leave_out has rank 0; expected other ranks than this one, 0, of 0..0"),
        ([1], None, "leave_out has rank 1"),
        ([], 0.0, "timeout_s is 0.0"),
        ([], "x", "timeout_s is 'x'; expected a positive number of seconds"),
        (3, None, "leave_out is an int; expected a list of ranks"),
    ],
)
def test_mistakes(leave_out: Any, timeout_s: Any, expected: str) -> None:
    def act(comm: Communicator) -> None:
        with pytest.raises((TypeError, ValueError), match=expected):
            comm.shrink(leave_out, timeout_s=timeout_s)
        comm.barrier()

    spawn(act, 1)
