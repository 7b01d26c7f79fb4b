"""What survivors are told when something goes wrong between ranks: at once or within the timeout, by name."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TIMEOUT_S = 3.0


class Story:
    """What a rank of `Faults` says: its outcome, the seconds its call took, and its exit code."""

    def __init__(self, kinds: list[str], text: str, took_s: float) -> None:
        self.kinds, self.text, self.took_s = kinds, text, took_s


def run(n: int, folder: Path, function: Callable[[int], Any], *args: Any) -> tuple[dict[int, Story], list[int | None]]:
    """`function(rank, *args)` on n ranks with a group, each a fresh process; the stories of those who raised, and the
    exit codes of all. A process that is there after 5 timeouts hangs."""
    context = multiprocessing.get_context("forkserver")  # which imports torch once: that takes seconds
    context.set_forkserver_preload(["torch.distributed", "ringtree.torch_backend", __name__])
    said: Any = context.SimpleQueue()
    processes = [
        context.Process(target=_rank, args=(said, rank, n, str(folder / "store"), function, args)) for rank in range(n)
    ]
    for process in processes:
        process.start()
    until = time.monotonic() + 20 + 5 * TIMEOUT_S
    for process in processes:
        process.join(max(until - time.monotonic(), 0))
    hanging = [rank for rank, process in enumerate(processes) if process.is_alive()]
    for process in processes:
        process.kill()
        process.join()
    assert not hanging, f"ranks {hanging} of {n} hang"
    stories = {}
    while not said.empty():
        rank, *story = said.get()
        stories[rank] = Story(*story)
    return stories, [process.exitcode for process in processes]


def _rank(said: Any, rank: int, size: int, file: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(file, size)
    dist.init_process_group("ringtree", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=TIMEOUT_S))
    dist.all_reduce(torch.ones(1))
    start = time.monotonic()
    try:
        function(rank, *args)
    except BaseException as error:
        said.put((rank, [k.__name__ for k in type(error).__mro__], str(error), time.monotonic() - start))
        dist.destroy_process_group()  # never hangs
        raise SystemExit(3) from error
    dist.destroy_process_group()


def _called(call: str) -> None:
    import torch
    import torch.distributed as dist

    x = torch.ones(8)
    if call == "async":
        dist.all_reduce(x, async_op=True).wait()
    elif call == "future":
        dist.all_reduce(x, async_op=True).get_future().wait()
    elif call == "barrier":
        dist.barrier()
    else:
        {"all_reduce": dist.all_reduce, "broadcast": lambda t: dist.broadcast(t, 1)}[call](x)


def _dies(rank: int, call: str) -> None:
    if rank == 1:
        os._exit(7)
    _called(call)


@pytest.mark.parametrize("call", ["all_reduce", "broadcast", "barrier", "async", "future"])
def test_a_dead_rank_is_named_at_once(tmp_path: Path, call: str) -> None:
    stories, codes = run(3, tmp_path, _dies, call)
    assert codes == [3, 7, 3]
    name = "all_reduce" if call in ("async", "future") else call
    for rank, story in stories.items():
        assert {"PeerDied", "DistBackendError"} <= set(story.kinds) or call == "future"
        assert f"rank {rank}: {name}(" in story.text and "rank 1 died" in story.text, story.text
        assert "sequence number 2 of group default_pg" in story.text


def _hangs(rank: int, call: str) -> None:
    if rank == 1:
        time.sleep(TIMEOUT_S + 2)
        return
    _called(call)


@pytest.mark.parametrize("call", ["all_reduce", "async"])
def test_a_rank_that_does_not_come_is_named_within_the_timeout(tmp_path: Path, call: str) -> None:
    stories, codes = run(3, tmp_path, _hangs, call)
    assert codes == [3, 0, 3]
    for story in stories.values():
        assert "TimedOut" in story.kinds and "waited 3 s for rank 1 in all_reduce" in story.text, story.text
        assert TIMEOUT_S * 0.9 < story.took_s < 2 * TIMEOUT_S
