"""Several threads and several groups at once: no wait holds up another group, nor the interpreter."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds


def _in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """The results of the functions, all run at once; raises the first error of one."""
    results: list[Any] = [None] * len(functions)

    def call(i: int) -> None:
        try:
            results[i] = functions[i]()
        except BaseException as error:  # noqa: BLE001
            results[i] = error

    threads = [threading.Thread(target=call, args=(i,), daemon=True) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    for each in results:
        if isinstance(each, BaseException):
            raise each
    return results


def _many_calls(groups: int, threads: int, calls: int) -> list[int]:
    """Of every thread, which has a group of its own for each of `groups`: calls with a wrong result."""
    import torch
    import torch.distributed as dist

    n, rank = dist.get_world_size(), dist.get_rank()
    made = [[dist.new_group() for _ in range(groups)] for _ in range(threads)]

    def thread(t: int) -> int:
        wrong, under_way = 0, []
        for k in range(calls):
            group = made[t][k % groups]
            x = torch.full((1 + 997 * (k % 5),), float(rank + k + t))
            expected = n * (n - 1) / 2 + n * (k + t)
            if k % 3 == 0:
                dist.all_reduce(x, group=group)
                wrong += bool((x != expected).any())
            else:
                work = dist.all_reduce(x, group=group, async_op=True)
                under_way.append((work if k % 3 == 1 else work.get_future(), x, expected))
            if k % 7 == 0:
                y = torch.full((3,), float(k))
                sent = dist.isend(y, (rank + 1) % n, group=group, tag=t)
                dist.recv(z := torch.zeros(3), (rank - 1) % n, group=group, tag=t)
                sent.wait()
                wrong += bool((z != k).any())
        for pending, x, expected in under_way:
            pending.wait()
            wrong += bool((x != expected).any())
        return wrong

    results = _in_threads(*[lambda t=t: thread(t) for t in range(threads)])  # type: ignore[misc]
    for row in made:
        for group in row:
            dist.destroy_process_group(group)
    return results


@pytest.mark.parametrize(("n", "groups", "threads"), [(2, 2, 2), (3, 1, 3), (4, 2, 2)])
def test_threads_with_groups_of_their_own(worlds: Worlds, n: int, groups: int, threads: int) -> None:
    assert worlds(n).run(_many_calls, groups, threads, 60) == [[0] * threads] * n


def _one_group_many_threads(count: int, earlier: int) -> list[set[float]]:
    """Threads that call one after another while the first call waits: each gets its own call's result."""
    import time

    import torch
    import torch.distributed as dist

    group: Any = dist.group.WORLD
    begun = group._get_sequence_number_for_group

    def thread(t: int) -> set[float]:
        while begun() < before + t:
            time.sleep(0.001)
        time.sleep(0.05)  # what is begun is in the engine then
        if t % 2:
            work = dist.all_reduce(x := torch.full((count,), float(t)), async_op=True)
            work.wait()
        else:
            dist.all_reduce(x := torch.full((count,), float(t)))
        return set(x.tolist())

    for _ in range(earlier):  # the first of a kind is planned, which takes a while
        dist.all_reduce(torch.ones(count))
    before = begun()
    if dist.get_rank() == 1:  # late: meanwhile all of rank 0's threads have come
        time.sleep(1.0)
    return _in_threads(*[lambda t=t: thread(t) for t in range(6)])  # type: ignore[misc]


@pytest.mark.parametrize(("count", "earlier"), [(2, 1), (1 << 18, 5), (1 << 18, 9)])
def test_threads_with_one_group_call_in_the_order_in_which_they_come(worlds: Worlds, count: int, earlier: int) -> None:
    """Also where calls of long tensors try another way from the seventh on, and take the quicker one from the 14th."""
    assert worlds(2).run(_one_group_many_threads, count, earlier) == [[{2.0 * t} for t in range(6)]] * 2


def _one_group_is_stuck() -> bool:
    """A thread waits in one group; another group, and Python, go on."""

    import torch
    import torch.distributed as dist

    other = dist.new_group()
    rank = dist.get_rank()
    stuck = threading.Thread(target=lambda: dist.all_reduce(torch.ones(1), group=other), daemon=True)
    if rank == 0:
        stuck.start()
    for _ in range(20):
        dist.all_reduce(torch.ones(1))
    futures = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(5)]
    for future in futures:
        future.wait()
    alive = stuck.is_alive()
    dist.barrier()  # both have looked
    if rank != 0:
        stuck.start()
    stuck.join()
    dist.destroy_process_group(other)
    return alive


def test_a_thread_that_waits_in_one_group_holds_up_no_other(worlds: Worlds) -> None:
    assert worlds(2).run(_one_group_is_stuck)[0]


def _mixed_order(asynchronous_first: bool) -> list[float]:
    import torch
    import torch.distributed as dist

    a, b = dist.new_group(), dist.new_group()
    x, y = torch.ones(100_000), torch.full((100_000,), 2.0)
    for _ in range(5):
        if (dist.get_rank() == 0) == asynchronous_first:
            work = dist.all_reduce(x, group=a, async_op=True)
            dist.all_reduce(y, group=b)
        else:
            work = dist.all_reduce(y, group=b, async_op=True)
            dist.all_reduce(x, group=a)
        work.wait()
    dist.destroy_process_group(a)
    dist.destroy_process_group(b)
    return [float(x[-1]), float(y[0])]


@pytest.mark.parametrize("asynchronous_first", [True, False])
def test_ranks_may_begin_the_calls_of_two_groups_in_different_orders(worlds: Worlds, asynchronous_first: bool) -> None:
    assert worlds(2).run(_mixed_order, asynchronous_first) == [[32.0, 64.0]] * 2


def _python_goes_on() -> bool:
    """Rank 1 computes in Python while rank 0 waits in every way there is; rank 0's other thread counts on."""
    import time

    import torch
    import torch.distributed as dist

    if dist.get_rank() == 1:
        for _ in range(4):
            time.sleep(0.2)
            dist.all_reduce(torch.ones(1))
        time.sleep(0.2)
        dist.send(torch.ones(1), 0)
        return True
    counted, over = [0], threading.Event()

    def count() -> None:
        while not over.wait(0.005):
            counted[0] += 1

    threading.Thread(target=count, daemon=True).start()
    waits = (
        lambda: dist.all_reduce(torch.ones(1)),
        lambda: dist.all_reduce(torch.ones(1), async_op=True).wait(),
        lambda: dist.all_reduce(torch.ones(1), async_op=True).get_future().wait(),
        lambda: dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda f: f.value()).wait(),
        lambda: dist.recv(torch.ones(1), 1),
    )
    went_on = []
    for wait in waits:
        before = counted[0]
        wait()
        went_on.append(counted[0] - before >= 5)
    over.set()
    return all(went_on)


def test_no_wait_holds_the_interpreter(worlds: Worlds) -> None:
    assert worlds(2).run(_python_goes_on) == [True, True]
