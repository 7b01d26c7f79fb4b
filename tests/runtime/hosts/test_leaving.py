"""Ranks that leave, by themselves or by an error, while others on other hosts wait, are late or were never in touch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ringtree.errors import PeerDied
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.spawn_processes import Processes
from tests.runtime.hosts.conftest import HostCrew, Layout, Ranks, parameters_on, survivors
from tests.runtime.hosts.lab import Lab, missing
from tests.waiting import until

LAYOUT: Layout = (2, 1, 1)
VICTIM = 3
"""The rank, alone on host 2, that leaves."""


def raised(call: Callable[[], object]) -> list[str]:
    """The error of a call: [type, message]."""
    try:
        call()
    except Exception as error:  # noqa: BLE001
        return [type(error).__name__, str(error)]
    return ["none", ""]


def is_of_the_victims_error(found: list[str], left: int = VICTIM) -> bool:
    kind, message = found
    cause = f"; the first cause: rank {VICTIM} failed with ValueError: boom"
    return kind == PeerDied.__name__ and message.startswith(f"rank {left} left the group") and message.endswith(cause)


def test_one_who_left_is_not_waited_for(ranks: Ranks, wire: str) -> None:
    def rank(comm: Communicator) -> list[str]:
        comm.all_reduce(np.ones(10))
        if comm.rank == VICTIM:
            comm.close()
            return ["left", ""]
        return raised(lambda: comm.all_reduce(np.ones(10)))

    found = survivors(ranks(LAYOUT, rank, wires=[wire]).finish())
    for other in (0, 1, 2):
        kind, message = found[other]
        assert kind == PeerDied.__name__ and f"rank {VICTIM} left the group" in message, message


def test_who_waits_for_a_slow_rank_hears_of_one_that_left(ranks: Ranks, wire: str, tmp_path: Path) -> None:
    """0 is late; 1 and 2 wait for it, and 3 has left without their call."""

    def rank(comm: Communicator) -> list[str]:
        comm.all_to_all(np.ones(4))  # they are connected
        if comm.rank == VICTIM:
            raise ValueError("boom")
        if comm.rank == 0:
            until(lambda: len(list(tmp_path.iterdir())) == 2)
        found = raised(lambda: comm.broadcast(np.ones(10), 0))
        (tmp_path / str(comm.rank)).touch()
        return found

    found = survivors(ranks(LAYOUT, rank, wires=[wire]).finish())
    assert all(is_of_the_victims_error(found[other]) for other in (0, 1, 2)), found


def test_a_rank_that_fails_before_any_is_connected_to_it_gives_its_cause(ranks: Ranks, wire: str) -> None:
    """The commonest failure of a first run: a file is missing on one host."""

    def rank(comm: Communicator) -> list[str]:
        if comm.rank == VICTIM:
            raise ValueError("boom")
        time.sleep(0.5)  # it has left
        return raised(lambda: comm.all_reduce(np.ones(4)))

    found = survivors(ranks(LAYOUT, rank, wires=[wire]).finish())
    assert all(is_of_the_victims_error(found[other]) for other in (0, 1, 2)), found


def test_the_first_cause_crosses_groups_and_hosts(ranks: Ranks, wire: str) -> None:
    """3 fails, 2 waits for it in a pair, 0 for 2 in another pair: all on hosts of their own."""

    def rank(comm: Communicator) -> list[str]:
        first = comm.group([2, VICTIM]) if comm.rank in (2, VICTIM) else None
        second = comm.group([0, 2]) if comm.rank in (0, 2) else None
        for group in filter(None, (first, second)):
            group.barrier()  # they are connected
        if comm.rank == VICTIM:
            raise ValueError("boom")
        group = first or second
        return raised(lambda: group.recv(np.ones(10), 1)) if group is not None else ["none", ""]

    found = survivors(ranks(LAYOUT, rank, wires=[wire]).finish())
    assert is_of_the_victims_error(found[2]) and is_of_the_victims_error(found[0], left=2), found


def test_what_was_sent_before_leaving_arrives_over_a_slow_link(ports: Iterator[int], wire: str) -> None:
    """A second's worth of bytes is on its way when the sender leaves."""
    if why := missing():
        pytest.skip(why)

    def rank(comm: Communicator) -> float:
        x = np.full(1 << 17, comm.rank, np.float64)
        comm.barrier()
        comm.broadcast(x, 1)
        comm.close()
        return float(x.sum())

    with Lab(2, "10mbit") as slow:
        crew = HostCrew(
            Processes("shm", parameters_on(slow, (1, 1), next(ports), 60.0, wires=[wire]), (rank, ()), False)
        )
        assert survivors(crew.finish()) == {0: float(1 << 17), 1: float(1 << 17)}
        crew.stop()
