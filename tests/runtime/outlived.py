"""Ranks as processes that may be killed one by one: each is forked, makes the job's world, acts, and reports."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import ringtree
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.soak.load import die_with

CONTEXT = multiprocessing.get_context("fork")
LIMIT_S = 60.0
"""The longest that a test waits for a report on a busy machine."""


class Killed(Exception):
    """A rank ended without a report."""


class Ranks:
    """`act(comm)` on `ranks` processes of one job, and what it returned, or raised."""

    def __init__(self, ranks: int, act: Callable[[Communicator], Any], timeout_s: float = 20.0) -> None:
        self.job = f"outlived-{os.getpid()}-{os.urandom(4).hex()}"
        self._act, self._timeout_s = act, timeout_s
        self._pipes: list[Connection] = []
        self.processes: list[Any] = []
        for rank in range(ranks):
            self.start(lambda rank=rank: _init(rank, ranks, self.job, timeout_s))

    def start(self, make: Callable[[], Communicator]) -> int:
        """Starts one process more, which makes its communicator itself; its number."""
        mine, its = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_live, args=(make, self._act, its, os.getpid()))
        process.start()
        its.close()
        self._pipes.append(mine)
        self.processes.append(process)
        return len(self.processes) - 1

    def signal(self, rank: int, number: int) -> None:
        os.kill(self.processes[rank].pid, number)

    def report(self, rank: int) -> Any:
        """What this rank's act returned; raises what it raised, and Killed where it ended without a word."""
        if not self._pipes[rank].poll(LIMIT_S):
            raise AssertionError(f"rank {rank} neither ended nor reported within {LIMIT_S:g} s")
        try:
            raised, value = self._pipes[rank].recv()
        except EOFError:
            raise Killed(f"rank {rank}") from None
        if raised:
            raise value
        return value

    def reports(self) -> dict[int, Any]:
        """Of all ranks that were not killed."""
        found: dict[int, Any] = {}
        for rank in range(len(self.processes)):
            with suppress(Killed):
                found[rank] = self.report(rank)
        return found

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.join(0.5 if process.exitcode is None else 0)
            process.kill()
            process.join()
        for pipe in self._pipes:
            pipe.close()


def _init(rank: int, ranks: int, job: str, timeout_s: float) -> Communicator:
    os.environ.update(RINGTREE_RANK=str(rank), RINGTREE_WORLD_SIZE=str(ranks), RINGTREE_JOB=job)
    return ringtree.init(timeout_s=timeout_s)


def _live(make: Callable[[], Communicator], act: Callable[[Communicator], Any], pipe: Connection, parent: int) -> None:
    die_with(parent)
    try:
        outcome = False, act(make())
    except BaseException as error:  # noqa: BLE001  # the test looks at it
        outcome = True, error
    pipe.send(outcome)


def end() -> None:
    """Kills the process that calls it."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
