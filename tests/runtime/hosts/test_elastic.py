"""Groups over hosts go on without their dead, and take processes in: whoever dies, whenever, one group comes of it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree.errors import Poisoned
from ringtree.runtime.bootstrap.network.connection import Connection
from ringtree.runtime.bootstrap.network.server import CHECK_S, READY, RendezvousServer
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.membership.over_hosts import SurvivorsOverHosts
from tests.runtime.communicator.membership.test_shrink import FAILURES, until_it_fails, works
from tests.runtime.hosts.conftest import HostCrew, Layout, Ranks, made_lab
from tests.runtime.hosts.lab import Lab
from tests.runtime.outlived import end

SLOW_S = 20.0
"""The longest that survivors may take on a busy machine."""
STILL_S = 10.0
"""For how long ranks stand still before they end, longer than survivors take to find that out."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Hosts that no other test's ranks are on: their links are cut."""
    yield from made_lab()


def results(crew: HostCrew) -> dict[int, Any]:
    """Of the ranks that returned; an error of one that raised."""
    found = {}
    for rank, outcome in crew.finish():
        assert not outcome.failed or "killed by SIGKILL" in outcome.story, outcome.story
        if not outcome.failed:
            found[rank] = outcome.result
    return found


def meet(comm: Communicator) -> None:
    """A barrier, which fails where a rank that has left it dies before what it sent has left its host."""
    with suppress(*FAILURES):
        comm.barrier()


@pytest.mark.parametrize(
    ("layout", "victims"),
    [
        ((2, 1, 1), (3,)),
        ((2, 1, 1), (0,)),
        ((2, 2), (2, 3)),
        ((2, 2), (0, 1)),
        ((1, 1, 1), (0, 2)),
    ],
)
def test_survivors_of_killed_ranks_go_on(ranks: Ranks, wire: str, layout: Layout, victims: tuple[int, ...]) -> None:
    def act(comm: Communicator) -> Any:
        meet(comm)
        if comm.rank in victims:
            end()
        error = until_it_fails(comm)
        began_s = time.monotonic()
        after = comm.shrink()
        took_s = time.monotonic() - began_s
        return error, after.former_ranks, after.rank, works(after), after.first_cause, took_s

    found = results(ranks(layout, act, wires=[wire]))
    survivors = tuple(rank for rank in range(sum(layout)) if rank not in victims)
    assert tuple(sorted(found)) == survivors
    for rank, (error, former, new, right, cause, took_s) in found.items():
        assert former == survivors
        assert survivors[new] == rank
        assert right
        assert any(f"rank {victim}" in error and f"rank {victim}" in cause for victim in victims)
        assert took_s < SLOW_S


@pytest.mark.parametrize("seed", range(6))
def test_a_death_while_they_shrink_leaves_one_group(ranks: Ranks, seed: int) -> None:
    draw = Random(f"death while shrinking over hosts {seed}")
    second, after_s = draw.choice([0, 0, 1, 2, 3]), draw.uniform(0, 0.1)

    def act(comm: Communicator) -> Any:
        meet(comm)
        if comm.rank == 4:
            end()
        until_it_fails(comm)
        if comm.rank == second:
            threading.Timer(after_s, end).start()
        keys = []
        while True:
            comm = comm.shrink(timeout_s=SLOW_S)
            keys.append((comm.key, comm.former_ranks))
            if comm.size == 3:
                return keys, works(comm)
            until_it_fails(comm)

    found = results(ranks((2, 1, 2), act))
    assert sorted(found) == [rank for rank in range(4) if rank != second]
    assert len({tuple(keys) for keys, _ in found.values()}) == 1, found
    assert all(right for _, right in found.values())


@pytest.mark.parametrize("answered", [0, 1])
def test_a_leader_that_dies_as_it_says_that_all_have_the_group(ranks: Ranks, answered: int) -> None:
    """So many hear it of the two others; both have the group then, or neither has."""

    def doomed(server: RendezvousServer, key: str, message: dict[str, Any], but: Sequence[Connection] = ()) -> None:
        if key.endswith(READY) and "values" in message:
            for rank, connection, _ in server._meetings[key].waiting:
                if 0 < rank <= answered:
                    server._answer(connection, message)
            end()
        whole(server, key, message, but)

    def act(comm: Communicator) -> Any:
        meet(comm)
        if comm.rank == 3:
            end()
        if comm.rank == 0:
            RendezvousServer._end_meeting = doomed  # type: ignore[method-assign]
        until_it_fails(comm)
        keys = []
        while comm.size != 2:
            comm = comm.shrink(timeout_s=SLOW_S)
            keys.append((comm.key, comm.former_ranks))
            if comm.size != 2:
                until_it_fails(comm)
        return keys, works(comm)

    whole = RendezvousServer._end_meeting
    found = results(ranks((2, 1, 1), act))
    assert found[1] == found[2]
    keys, right = found[1]
    assert [former for _, former in keys] == ([(0, 1, 2), (1, 2)] if answered else [(1, 2)])
    assert right


@pytest.mark.parametrize("leave_out", [True, False])
def test_survivors_that_look_for_their_leader_are_awaited(ranks: Ranks, leave_out: bool) -> None:
    """Ranks 3 to 5 ask the still ranks 1 and 2 for longer than rank 0 waits for one that does nothing."""

    def act(comm: Communicator) -> Any:
        meet(comm)
        if comm.rank in (1, 2):
            os.kill(os.getpid(), signal.SIGSTOP)
        until_it_fails(comm)
        after = comm.shrink([1, 2] if leave_out else [], timeout_s=1.0)
        return after.former_ranks, works(after)

    crew = ranks((1, 2, 3), act)
    threading.Timer(STILL_S, lambda: [os.kill(crew.pids[rank], signal.SIGKILL) for rank in (1, 2)]).start()
    assert results(crew) == dict.fromkeys((0, 3, 4, 5), ((0, 3, 4, 5), True))


@pytest.mark.parametrize("number", [12, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("layout", [(1, 1, 1), (2, 1, 2)])
def test_one_group_comes_of_it_whenever_they_call(ranks: Ranks, layout: Layout, number: int) -> None:
    """Ranks call earlier and later than others wait, in another group each time; some are left out, some close."""
    draw, size = Random(f"whenever {layout}"), sum(layout)
    rounds = []
    for _ in range(number):
        given_s = draw.choice([0.01, 0.1, 0.3])
        out = draw.sample(range(size), draw.choice([0, 0, 0, 1]))
        closes = draw.sample(range(size), draw.choice([0, 0, 0, 1]))
        rounds.append((given_s, [draw.uniform(0, 2 * given_s) for _ in range(size)], out, closes))

    def act(comm: Communicator) -> Any:
        found = []
        for given_s, late_s, out, closes in rounds:
            group = comm.duplicate()
            meet(group)
            time.sleep(late_s[comm.rank])
            if comm.rank in out:
                found.append("")
            elif comm.rank in closes:
                group.close()
                found.append("")
            else:
                try:
                    with group.shrink(out, timeout_s=given_s) as after:
                        right = after.all_reduce(np.ones(1))[0] == after.size
                        found.append((after.key, after.former_ranks) if right else "a wrong sum")
                except Poisoned as error:
                    found.append(str(error))
            comm.barrier()
            group.close()
        return found

    found = results(ranks(layout, act, timeout_s=60.0))
    for planned, *by_rank in zip(rounds, *(found[rank] for rank in range(size)), strict=True):
        groups = {one for one in by_rank if isinstance(one, tuple)}
        assert len(groups) == 1, (planned, by_rank)
        members = next(iter(groups))[1]
        assert [rank for rank, one in enumerate(by_rank) if isinstance(one, tuple)] == list(members)
        gone = {*planned[2], *planned[3]}
        for rank in {*range(size)} - {*members} - gone:
            assert "have gone on without" in by_rank[rank], (planned, by_rank)


@pytest.mark.slow
def test_the_larger_side_of_a_cut_network_goes_on(ranks: Ranks, lab: Lab) -> None:
    """Two of three hosts with two ranks each, and the third with two: it raises, and goes on alone where it is to."""

    def act(comm: Communicator) -> Any:
        meet(comm)
        until_it_fails(comm)
        try:
            after = comm.shrink(timeout_s=SLOW_S)
        except Poisoned as cut_off:
            alone = comm.shrink([0, 1, 2, 3], timeout_s=SLOW_S)
            return str(cut_off), alone.former_ranks, works(alone)
        return "", after.former_ranks, works(after)

    crew = ranks((2, 2, 2), act)
    time.sleep(1.5)
    lab.link(2, "down")
    try:
        found = results(crew)
    finally:
        lab.link(2, "up")
    for rank in range(4):
        assert found[rank] == ("", (0, 1, 2, 3), True)
    for rank in (4, 5):
        cut_off, former, right = found[rank]
        assert "ranks 0, 1, 2, 3 are out of reach of ranks 4, 5, which are not more" in cut_off
        assert (former, right) == ((4, 5), True)


@pytest.mark.slow
def test_one_that_stands_still_is_left_out_and_hears_of_it(ranks: Ranks) -> None:
    def act(comm: Communicator) -> Any:
        meet(comm)
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        with pytest.raises(FAILURES):
            while True:
                comm.all_reduce(np.ones(10))
        try:
            after = comm.shrink(timeout_s=SLOW_S)
        except Poisoned as left_out:
            return str(left_out)
        until_s = time.monotonic() + 3
        while after.broadcast(np.array([time.monotonic() < until_s]))[0]:
            assert works(after)
        return after.former_ranks

    crew = ranks((1, 1, 1), act)
    time.sleep(8)  # the wire reports it after 3 s, and its post is silent for 3 s
    os.kill(crew.pids[1], signal.SIGCONT)
    found = results(crew)
    assert found[0] == found[2] == (0, 2)
    assert "have gone on without rank 1" in found[1]


def test_a_process_on_another_host_joins(ranks: Ranks, lab: Lab, tmp_path: Path) -> None:
    at = f"file://{tmp_path}/board"

    def join(pipe: Any) -> None:
        lab.enter(2)
        with ringtree.join(at, timeout_s=SLOW_S) as comm:
            pipe.send((comm.rank, comm.former_ranks, comm.hosts, works(comm)))
            meet(comm)

    def act(comm: Communicator) -> Any:
        meet(comm)
        if comm.rank == 0:
            end()
        until_it_fails(comm)
        grown = comm.shrink().grow(1, at=at, timeout_s=SLOW_S)
        found = grown.rank, grown.former_ranks, grown.hosts, works(grown)
        grown.barrier()
        return found

    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe()
    newcomer = context.Process(target=join, args=(its,))
    newcomer.start()
    found = results(ranks((2, 1), act))
    expected = ((0, 1, -1), (0, 1, 2), True)
    assert found == {1: (0, *expected), 2: (1, *expected)}
    assert mine.poll(SLOW_S) and mine.recv() == (2, *expected)
    newcomer.join()


def test_a_group_outlives_the_shrunk_world_it_was_made_from(ranks: Ranks) -> None:
    def act(comm: Communicator) -> Any:
        world = comm.shrink()
        group = world.duplicate()
        del world
        gc.collect()
        group.barrier()
        time.sleep(3 * CHECK_S)  # a server that nobody uses ends within one
        with group.duplicate() as another:
            return works(another)

    assert results(ranks((2, 1), act)) == dict.fromkeys(range(3), True)


def test_members_do_not_wait_for_a_leader_that_died_as_it_handed_on_where_they_meet(ranks: Ranks) -> None:
    def act(comm: Communicator) -> Any:
        def doomed(self: SurvivorsOverHosts, came: Any, message: dict[str, Any]) -> None:
            whole(self, came, message)
            if "members" in message:
                end()

        meet(comm)
        if comm.rank == 3:
            end()
        whole = SurvivorsOverHosts._answer_all
        if comm.rank == 0:
            SurvivorsOverHosts._answer_all = doomed  # type: ignore[method-assign]
        until_it_fails(comm)
        began_s = time.monotonic()
        after = comm.shrink(timeout_s=2 * SLOW_S)
        return after.former_ranks, works(after), time.monotonic() - began_s < SLOW_S

    assert results(ranks((1, 1, 2), act)) == dict.fromkeys((1, 2), ((1, 2), True, True))
