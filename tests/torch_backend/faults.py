"""Ranks that fail: fresh processes, the errors they get, and how they end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.runtime.hosts.lab import enter_all, own_clock
from tests.torch_backend.forked import context
from tests.waiting import until

TIMEOUT_S = 1.0
"""Of the group, once `hurry()` was called."""
JOIN_S = 60.0
"""How late a rank may come on a busy machine."""
RAISED = "raised"
"""The store's count of ranks that raised."""


places: Callable[[int], Sequence[list[str]]] | None = None
"""Returns the namespaces of each of n ranks' hosts; None: all are here."""


class Story:
    """The error of a rank that raised: its classes and text."""

    def __init__(self, kinds: list[str], text: str) -> None:
        self.kinds, self.text = kinds, text


def hurry() -> None:
    """On a rank: from now on it waits TIMEOUT_S for others, and no longer."""
    import torch.distributed as dist

    dist.group.WORLD.set_timeout(timedelta(seconds=TIMEOUT_S))  # type: ignore[union-attr]


def stay_away() -> None:
    """On a rank: until all others have raised."""
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store()
    until(lambda: store.add(RAISED, 0) == dist.get_world_size() - 1)


def fresh(function: Callable[..., Any], *args: Any) -> Any:
    """A process that has loaded torch."""
    return context().Process(target=function, args=args)


def run(
    n: int, folder: Path, function: Callable[..., Any], *args: Any, namespaces: Sequence[list[str]] = ()
) -> tuple[dict[int, Story], list[int | None]]:
    """`function(rank, *args)` on n ranks with a group, each a fresh process; the stories of those who raised, and the
    exit codes of all. A process that is there after 4 times JOIN_S hangs. Dumps go to `folder`/fr. `namespaces`: of
    each rank's host in a lab.
    """
    queue: Any = context().SimpleQueue()
    on = namespaces or (places(n) if places else [[]] * n)
    processes = [fresh(_rank, queue, r, n, str(folder / "store"), function, args, on[r]) for r in range(n)]
    for process in processes:
        process.start()
    deadline_s = time.monotonic() + 4 * JOIN_S
    for process in processes:
        process.join(max(deadline_s - time.monotonic(), 0))
    hanging = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for process in processes:
        process.kill()
        process.join()
    assert not hanging, f"ranks {hanging} of {n} hang"
    stories = {}
    while not queue.empty():
        rank, *story = queue.get()
        stories[rank] = Story(*story)
    return stories, [process.exitcode for process in processes]


def _rank(
    queue: Any,
    rank: int,
    size: int,
    file: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    namespaces: list[str],
) -> None:
    if namespaces:
        enter_all(namespaces)
        own_clock()
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), TORCH_FR_DUMP_TEMP_FILE=str(Path(file).parent / "fr/rank_"))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(file, size)
    dist.init_process_group("ringtree", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=JOIN_S))
    dist.all_reduce(torch.ones(1))
    try:
        function(rank, *args)
    except BaseException as error:
        queue.put((rank, [k.__name__ for k in type(error).__mro__], str(error)))
        dist.distributed_c10d._get_default_store().add(RAISED, 1)
        dist.destroy_process_group()  # never hangs
        raise SystemExit(3) from error
    dist.destroy_process_group()
