"""The contract of every bootstrap, and that an engine takes any of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import numpy as np
import pytest

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.in_process import IN_PROCESS, InProcess
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.local.shared_memory import reserve
from ringtree.runtime.bootstrap.protocols import Bootstrap
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters

BOOTSTRAPS = {"abstract socket": ABSTRACT_SOCKET, "in process": IN_PROCESS}
numbers = count()


@pytest.fixture(params=list(BOOTSTRAPS))
def bootstrap(request: pytest.FixtureRequest) -> Bootstrap:
    return BOOTSTRAPS[request.param]


@pytest.fixture
def key() -> str:
    return f"bootstrap-{os.getpid()}-{next(numbers)}"


def outcomes(tasks: list[Callable[[], Any]]) -> list[Any]:
    """The result or error of each of the tasks, one a thread."""
    with ThreadPoolExecutor(len(tasks)) as threads:
        done = [threads.submit(task) for task in tasks]
    return [d.exception() or d.result() for d in done]


def member(key: str, rank: int, size: int, timeout_s: float = 30) -> BootstrapGroup:
    return BootstrapGroup(key, rank, [f"{10 * r}" for r in range(size)], "the test", timeout_s)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_all_get_every_members_value_in_the_order_of_ranks(bootstrap: Bootstrap, key: str, size: int) -> None:
    for turn in range(3):  # a key serves one group after another
        values = [{"rank": rank, "turn": turn} for rank in range(size)]
        tasks = [
            lambda rank=rank, value=value: bootstrap.exchange(member(key, rank, size), value)
            for rank, value in enumerate(values)
        ]
        assert outcomes(tasks[::-1]) == [values] * size


def test_missing_ranks_are_named(bootstrap: Bootstrap, key: str) -> None:
    errors = outcomes([lambda rank=rank: bootstrap.exchange(member(key, rank, 4, 0.2)) for rank in (0, 2)])
    for error in errors:
        assert isinstance(error, TimeoutError)
        assert str(error) == "ranks 10, 30 did not come to the test within 0.2 s"


def test_a_rank_that_comes_twice_is_named(bootstrap: Bootstrap, key: str) -> None:
    errors = outcomes([lambda rank=rank: bootstrap.exchange(member(key, rank, 3, 0.5)) for rank in (1, 0, 1)])
    assert any("claim to be rank 10 of the test" in str(error) for error in errors)


class Threads(InProcess):
    """A HostBootstrap of threads: memory that rank 0 makes."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = 0
        self.made = threading.Lock()

    def hosts(self, group: BootstrapGroup) -> list[int]:
        return [0] * group.size

    def share(
        self,
        group: BootstrapGroup,
        nbytes: int,
        value: Any = None,
        reserved: int | None = None,
        needed: int | None = None,
    ) -> tuple[int, list[Any]]:
        with self.made:
            self.shared += 1
        fd = reserve(nbytes, group.subject) if group.rank == 0 else -1
        offers = self.exchange(group, (value, fd))
        mine = fd if group.rank == 0 else os.dup(offers[0][1])
        self.exchange(group)  # rank 0 keeps its descriptor until all have theirs
        return mine, [value for value, _ in offers]


def test_an_engine_and_its_symmetric_memory_meet_by_any_bootstrap(key: str) -> None:
    pytest.importorskip("ringtree._native")
    threads = Threads()

    def work(rank: int) -> list[float]:
        parameters = GroupParameters(key, rank, ("0", "1", "2"), 30, threads=True, bootstrap=threads)
        with Communicator("shm", parameters) as comm:
            x = comm.empty(4, np.float32)
            x[:] = rank
            half = comm.split(rank % 2)
            assert half is not None
            with half:
                return [*comm.all_reduce(x)[:1].tolist(), *half.all_reduce(x)[:1].tolist()]

    assert outcomes([lambda rank=rank: work(rank) for rank in range(3)]) == [[3.0, 2.0], [3.0, 1.0], [3.0, 2.0]]
    assert threads.shared == 3 + 3 + 3  # the world, the array, and the two halves
