"""Ranks that call ringtree.init() themselves, each with its environment, on hosts of a lab."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import numpy as np

import ringtree
from ringtree.runtime.bootstrap import environment
from tests.runtime.hosts.lab import Lab

AWAITED_S = 60.0
"""Longer than any wait that a fault may end, shorter than the ranks' own timeout."""
PATIENCE_S = 100.0


def joined(**options: Any) -> str:
    """A rank's task: it joins, and calls once."""
    with ringtree.init(timeout_s=PATIENCE_S, **options) as comm:
        total = float(comm.all_reduce(np.array([comm.rank + 1.0]))[0])
        return f"rank {comm.rank} of {comm.size} hosts {comm.hosts} total {total:g}"


class Started:
    """Processes that run a task each. `finish` has each one's result, or its error as `TypeName: text`."""

    def __init__(self) -> None:
        self._pipes: list[Connection] = []
        self.pids: list[int] = []

    def start(self, task: Callable[[], str], lab: Lab, host: int, **variables: object) -> int:
        """Runs the task on that host of the lab; returns its number. Variables: RINGTREE_<NAME>."""

        def there() -> str:
            lab.enter(host)
            for name in [name for name in os.environ if name.startswith("RINGTREE_")]:
                del os.environ[name]
            os.environ.update({f"RINGTREE_{name}": str(value) for name, value in variables.items()})
            return task()

        return self.start_here(there)

    def start_here(self, task: Callable[[], str]) -> int:
        """Runs the task in a forked child as it is."""
        mine, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            try:
                mine.close()
                theirs.send(task())
            except BaseException as error:  # noqa: BLE001  # the test looks at it
                theirs.send(f"{type(error).__name__}: {error}")
            finally:
                os._exit(0)
        theirs.close()
        self._pipes.append(mine)
        self.pids.append(pid)
        return len(self.pids) - 1

    def finish(self, *awaited: int) -> list[str]:
        """The results of these processes (all, without any), "ended" for one that ended without, "waits" for one that
        still waits."""
        return self.finish_within(AWAITED_S, *awaited)

    def finish_within(self, seconds: float, *awaited: int) -> list[str]:
        """As finish; those that have no result then wait on."""
        numbers = awaited or range(len(self.pids))
        found = dict.fromkeys(numbers, "waits")
        waiting = {self._pipes[n]: n for n in numbers}
        while waiting and (ready := wait(list(waiting), seconds)):
            for pipe in ready:
                assert isinstance(pipe, Connection)
                number = waiting.pop(pipe)
                try:
                    found[number] = pipe.recv()
                except EOFError:
                    found[number] = "ended"
        return [found[n] for n in numbers]

    def stop(self) -> None:
        """Ends all of them."""
        while self.pids:
            pid = self.pids.pop()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for pipe in self._pipes:
            pipe.close()


def variables_of(lab: Lab, port: int, rank: int, size: int) -> dict[str, object]:
    """Of a rank that meets the others at host 0."""
    return {
        "ADDRESS": f"{lab.address(0)}:{port}",
        "SECRET": "of the tests",
        "RANK": rank,
        "WORLD_SIZE": size,
        "JOB": f"{environment.SPAWNED}{port}",
    }
