"""Programs of two ranks that end in the midst of things, each as an interpreter of its own:
python -m tests.torch_backend.ends FOLDER writes what became of them, {program: [[exit code, standard error], ...]}.

They are forked from one process that has imported torch, for that takes seconds, and end as any program does.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from ringtree.torch_backend.calls import administration
from ringtree.torch_backend.works import under_way
from tests.waiting import Event, until

LIMIT_S = 200.0


def forgotten_works(rank: int) -> None:
    """Nobody keeps rank 0's works, and it is at its end before rank 1 begins."""
    under_way.GRACE_S = 30.0  # rank 1 may be as late as a busy machine makes it
    if rank == 0:
        for _ in range(20):
            dist.all_reduce(torch.ones(100_000), async_op=True)
        return
    time.sleep(0.5)
    for _ in range(20):
        dist.all_reduce(x := torch.ones(100_000))
        assert (x == 2).all()


def a_forgotten_message(rank: int) -> None:
    under_way.GRACE_S = 30.0  # as above
    if rank == 0:
        dist.isend(torch.ones(1_000_000), 1)
        return
    time.sleep(0.5)
    dist.recv(x := torch.zeros(1_000_000), 0)
    assert (x == 1).all()


def a_future_that_nobody_else_comes_for(rank: int) -> None:
    if rank == 0:
        kept.append(dist.all_reduce(torch.ones(3), async_op=True).get_future())


def a_message_that_never_comes(rank: int) -> None:
    if rank == 0:
        kept.append(dist.irecv(torch.ones(3), 1).get_future())


def a_callback_that_waits_for_nobody(rank: int) -> None:
    def then(future: torch.futures.Future[list[torch.Tensor]]) -> None:
        if rank == 0:
            dist.all_reduce(torch.ones(3))

    kept.append(dist.all_reduce(torch.ones(3), async_op=True).get_future().then(then))
    time.sleep(0.2)


def a_callback_that_sleeps(rank: int) -> None:
    kept.append(dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda _: time.sleep(60)))
    time.sleep(0.2)


def an_exit_code(rank: int) -> None:
    if rank == 0:
        kept.append(dist.all_reduce(torch.ones(3), async_op=True).get_future())
    sys.exit(3)


def a_mismatch(rank: int) -> None:
    """No rank destroys the group."""
    if rank == 0:
        dist.broadcast(torch.ones(4), 0)


def a_fork(rank: int) -> None:
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12's, of a fork beside threads
    child = os.fork()
    if child == 0:
        sys.exit(threading.active_count() - 1)
    assert os.waitpid(child, 0)[1] == 0


def destroyed(rank: int) -> None:
    """With works under way: they end, and so do the threads."""
    futures = [dist.all_reduce(torch.ones(1000), async_op=True).get_future() for _ in range(10)]
    dist.destroy_process_group()
    assert all(future.done() and float(future.wait()[0][0]) == 2 for future in futures)
    until(lambda: threading.active_count() == 1)


gone, gone_too = Event(), Event()
"""Set once a rank's group is destroyed; the other rank does not leave before."""


def destroyed_while_another_rank_hangs(rank: int) -> None:
    if rank == 1:
        gone.wait()
        return
    administration.LEAVE_S = 1.0
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    dist.destroy_process_group()
    gone.set()
    try:
        future.wait()
    except RuntimeError as error:
        assert "closed" in str(error), error
    else:
        raise AssertionError("it ended well")


def interrupted(rank: int) -> None:
    """In a wait, with another call behind it: a user who pressed Ctrl-C does not wait any longer."""
    if rank == 1:
        gone_too.wait()
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Python has none where it is started to ignore it
    works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(2)]
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        works[0].wait()
    except KeyboardInterrupt:
        dist.destroy_process_group()
        gone_too.set()
    else:
        raise AssertionError("it ended")


PROGRAMS: dict[str, Callable[[int], None]] = {
    f.__name__: f
    for f in (
        forgotten_works,
        a_forgotten_message,
        a_future_that_nobody_else_comes_for,
        a_message_that_never_comes,
        a_callback_that_waits_for_nobody,
        a_callback_that_sleeps,
        an_exit_code,
        a_mismatch,
        a_fork,
        destroyed,
        destroyed_while_another_rank_hangs,
        interrupted,
    )
}
kept: list[torch.futures.Future[object]] = []


def main(folder: Path) -> None:
    """Returns in the children, too: as one of the programs' ranks."""
    ends: dict[str, list[tuple[int, str]]] = {}
    running = {}
    gc.freeze()  # the end of an interpreter looks through all that torch is made of: not in each of the children
    for name in PROGRAMS:
        for rank in range(2):
            process = os.fork()
            if process == 0:
                return _rank(name, rank, folder)
            running[name, rank] = process
    deadline_s = time.monotonic() + LIMIT_S
    for (name, rank), process in running.items():
        status = None
        while status is None and time.monotonic() < deadline_s:
            ended, found = os.waitpid(process, os.WNOHANG)
            status = found if ended else time.sleep(0.01)
        if status is None:
            os.kill(process, 9)
        code = -1 if status is None else os.waitstatus_to_exitcode(status)
        ends.setdefault(name, []).append((code, (folder / f"{name}.{rank}").read_text()))
    (folder / "ends.json").write_text(json.dumps(ends))


def _rank(name: str, rank: int, folder: Path) -> None:
    with open(folder / f"{name}.{rank}", "w") as file:
        os.dup2(file.fileno(), 2)
    store = dist.FileStore(str(folder / f"{name}.store"), 2)
    dist.init_process_group("ringtree", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=300))
    dist.barrier()
    PROGRAMS[name](rank)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
