"""Worlds of real processes with a process group in them, which live across tests: starting torch takes seconds."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.runtime.hosts.lab import enter_all, own_clock
from tests.torch_backend.forked import context

TIMEOUT_S = 20.0
"""Of the process group; `World.run` waits for three times as long before it reports that a rank hangs."""


class RankError(AssertionError):
    """A function raised on a rank: its number, and the traceback there."""


class World:
    """n processes with the default group of `backend`, and `variables` in their environment. `run` calls a function of
    a test module on each of them."""

    def __init__(
        self,
        n: int,
        backend: str = "ringtree",
        timeout_s: float = TIMEOUT_S,
        variables: Mapping[str, str] | None = None,
        namespaces: Sequence[list[str]] = (),
    ) -> None:
        """`namespaces`: of each rank's host in a lab."""
        self.size, self.timeout_s = n, timeout_s
        self._folder = tempfile.TemporaryDirectory(prefix="ringtree-torch-")
        server = context()
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(n):
            ours, theirs = server.Pipe()
            file = str(Path(self._folder.name) / "store")
            place = namespaces[rank] if namespaces else []
            arguments = (theirs, backend, rank, n, file, timeout_s, dict(variables or {}), place)
            process = server.Process(target=_rank, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self.alive = True

    def run(self, function: Callable[..., Any], *args: Any, within_s: float | None = None) -> list[Any]:
        """`function(*args)` on every rank; the results in order of ranks. A failure ends this world. `within_s`: for
        what takes long, as compiling does."""
        try:
            for pipe in self._pipes:
                pipe.send((function, args))
            return self._collect(within_s or 3 * self.timeout_s)
        except BaseException:
            self.close()
            raise

    def _collect(self, within_s: float) -> list[Any]:
        answers: dict[int, Any] = {}
        stories: list[str] = []
        while len(answers) < self.size:
            open_ranks = {self._pipes[r]: r for r in range(self.size) if r not in answers}
            # Those who wait for a rank that raised hear of it, or time out; give them less than the world's patience.
            ready = wait(list(open_ranks), within_s if not stories else 3.0)
            if not ready:
                stories.append(f"ranks {sorted(open_ranks.values())} of {self.size} did not answer")
                break
            for pipe in ready:
                rank = open_ranks[pipe]  # type: ignore[index]
                try:
                    good, what = pipe.recv()  # type: ignore[union-attr]
                except EOFError:
                    good, what = False, "its process ended"
                answers[rank] = what
                if not good:
                    stories.append(f"rank {rank} of {self.size}: {what}")
        if stories:
            raise RankError("\n".join(stories))
        return [answers[rank] for rank in range(self.size)]

    def close(self) -> None:
        self.alive = False
        for process in self._processes:
            process.kill()
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._folder.cleanup()


def _rank(
    pipe: Connection,
    backend: str,
    rank: int,
    size: int,
    file: str,
    timeout_s: float,
    variables: dict[str, str],
    namespaces: list[str],
) -> None:
    if namespaces:
        enter_all(namespaces)
        own_clock()
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size))
    os.environ.update(variables)
    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = file + "-dump-"
    import torch
    import torch.distributed as dist

    from ringtree.torch_backend.registration import autoload

    autoload()  # what torch does by itself where ringtree is installed
    torch.set_num_threads(1)
    store = dist.FileStore(file, size)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout_s))
    while True:
        try:
            function, args = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, function(*args)))
        except BaseException:  # noqa: BLE001  # whatever it is, the test hears of it
            pipe.send((False, traceback.format_exc()))
