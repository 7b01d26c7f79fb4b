"""Futures: completed beside the program, with callbacks that may do what the program may."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds


def _does_not_block() -> tuple[bool, list[float]]:
    import torch
    import torch.distributed as dist

    rank = dist.get_rank()
    x = torch.full((3,), 1.0 + rank)
    early = True
    if rank == 0:  # asks for the future before anybody else has come
        future = dist.all_reduce(x, async_op=True).get_future()
        early = not future.done()
        dist.send(torch.zeros(1), 1)
    else:
        dist.recv(torch.zeros(1), 0)
        future = dist.all_reduce(x, async_op=True).get_future()
    [y] = future.wait()
    assert y is x or y.data_ptr() == x.data_ptr()
    return early, y.tolist()


def test_a_future_does_not_block(worlds: Worlds) -> None:
    assert worlds(2).run(_does_not_block) == [(True, [3.0] * 3)] * 2


def _into_inference_tensors() -> list[Any]:
    """The thread that ends the call is not in inference mode, and writes to tensors that were made in it."""
    import torch
    import torch.distributed as dist

    with torch.inference_mode():
        x, outs = torch.ones(3, 2).t(), [torch.zeros(3) for _ in range(2)]
        works = [dist.all_reduce(x, async_op=True), dist.all_gather(outs, torch.ones(3), async_op=True)]
    for work in works:
        work.get_future().wait()
    return [x.tolist(), *(out.tolist() for out in outs)]


def test_a_future_of_tensors_of_inference_mode(worlds: Worlds) -> None:
    assert worlds(2).run(_into_inference_tensors) == [[[[2.0] * 3] * 2, [1.0] * 3, [1.0] * 3]] * 2


def _at_the_end_of_a_fork() -> bool:
    import atexit
    import os
    import time

    import torch
    import torch.distributed as dist

    if dist.get_rank() == 1:
        dist.recv(torch.zeros(1), 0)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    soon = True
    if dist.get_rank() == 0:
        future = work.get_future().then(lambda _: None)
        began_s = time.monotonic()
        if (child := os.fork()) == 0:
            atexit._run_exitfuncs()
            os._exit(0)
        os.waitpid(child, 0)
        soon = time.monotonic() - began_s < 4.0
        dist.send(torch.zeros(1), 1)
        future.wait()
    work.wait()
    return soon


def test_a_forked_child_waits_for_no_call_of_its_parents(worlds: Worlds) -> None:
    assert worlds(2).run(_at_the_end_of_a_fork) == [True, True]


def _calls_in_a_callback(how: str) -> list[float]:
    import torch
    import torch.distributed as dist

    def then(future: Any) -> Any:
        [x] = future.value()
        work = dist.all_reduce(x, async_op=True)
        if how == "wait":
            work.wait()
            return [x]
        if how == "future":
            return work.get_future().wait()
        dist.all_reduce(y := torch.ones(2))
        work.wait()
        return [x * y[0]]

    work = dist.all_reduce(torch.ones(2), async_op=True)
    return list(work.get_future().then(then).wait()[0].tolist())


@pytest.mark.parametrize("how", ["wait", "future", "synchronous"])
@pytest.mark.parametrize("n", [2, 3])
def test_a_callback_makes_the_next_call_and_waits_for_it(worlds: Worlds, n: int, how: str) -> None:
    expected = float(n**3 if how == "synchronous" else n**2)
    assert worlds(n).run(_calls_in_a_callback, how) == [[expected] * 2] * n


def _chain(length: int) -> tuple[float, int]:
    import threading

    import torch
    import torch.distributed as dist

    def further(x: Any, left: int) -> Any:
        future = dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True).get_future()
        return future.then(lambda f: further(f.value()[0] + 1, left - 1).wait()) if left else future

    [x] = further(torch.zeros(1), length).wait()
    return float(x), threading.active_count()


def test_a_chain_of_callbacks_that_wait_for_each_other(worlds: Worlds) -> None:
    for last, _ in worlds(2).run(_chain, 100):
        assert last == 100.0


def _many() -> tuple[list[float], int]:
    import threading

    import torch
    import torch.distributed as dist

    before = threading.active_count()
    futures = [dist.all_reduce(torch.full((1,), float(i)), async_op=True).get_future() for i in range(200)]
    threads = threading.active_count() - before
    return [float(f.wait()[0]) for f in futures], threads


def test_two_hundred_at_once_and_few_threads(worlds: Worlds) -> None:
    for came, threads in worlds(2).run(_many):
        assert came == [2.0 * i for i in range(200)]
        assert threads <= 10  # each may hand the lead on before the last is idle: 5 were seen on a busy machine


def _waits_for_a_later_one() -> float:
    import torch
    import torch.distributed as dist

    if dist.get_rank() == 1:  # comes when rank 0 has hung its callback on the first
        dist.recv(torch.zeros(1), 0)
    futures = [dist.all_reduce(torch.full((1,), float(i)), async_op=True).get_future() for i in range(3)]
    last = futures[0].then(lambda _: futures[2].wait())
    if dist.get_rank() == 0:
        dist.send(torch.zeros(1), 1)
    return float(last.wait()[0])


def test_a_callback_waits_for_a_call_that_was_under_way_before(worlds: Worlds) -> None:
    assert worlds(2).run(_waits_for_a_later_one) == [4.0, 4.0]


def _without_threads() -> list[float]:
    """Where the system has no thread to give, that call raises, and the next ones work."""
    import threading

    import torch
    import torch.distributed as dist

    from ringtree.torch_backend.works import completion

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    completion.dismiss()  # those that wait for work
    work = dist.all_reduce(torch.ones(1), async_op=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="cannot start the thread of the futures"):
            work.get_future()
    works = [work, *[dist.all_reduce(torch.full((1,), float(i)), async_op=True) for i in range(3)]]
    return [float(work.get_future().wait()[0]) for work in works]


def test_no_thread_to_be_had(worlds: Worlds) -> None:
    assert worlds(2).run(_without_threads) == [[2.0, 0.0, 2.0, 4.0]] * 2


def _first_task_of_an_idle_thread() -> bool:
    import threading
    import weakref

    from ringtree.torch_backend.works import completion
    from tests.waiting import until

    class Task:
        def __call__(self) -> None:
            pass

    completion.dismiss()
    until(lambda: all(thread.name != "ringtree futures" for thread in threading.enumerate()))
    task = Task()
    gone = weakref.ref(task)
    completion.run(task)
    del task
    until(lambda: gone() is None)
    return any(thread.name == "ringtree futures" for thread in threading.enumerate())


def test_an_idle_thread_keeps_nothing_of_what_it_did(worlds: Worlds) -> None:
    assert worlds(2).run(_first_task_of_an_idle_thread) == [True, True]
