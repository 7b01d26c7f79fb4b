"""Callbacks of futures: in turn, so that their calls have one order on all ranks."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds


def _late(seed: int) -> Any:
    """Waits a little, now and then, and on each rank at other times."""
    import random
    import time

    import torch.distributed as dist

    chance = random.Random(f"{seed} {dist.get_rank()}")

    def late() -> None:
        if chance.random() < 0.4:
            time.sleep(chance.random() * 0.003)

    return late


def _buckets(seed: int) -> list[bool]:
    """As a hook on gradients does: a sum is scattered, a callback gathers it, another one sums it up with others', and
    another one waits for a call of its own; the program has called for the next bucket's by then."""
    import torch
    import torch.distributed as dist

    n, late, came = dist.get_world_size(), _late(seed), []

    def bucket(i: int) -> torch.futures.Future[torch.Tensor]:
        whole, part = torch.full((n,), float(i)), torch.empty(1)
        result: torch.futures.Future[torch.Tensor] = torch.futures.Future()

        def scattered(_: Any) -> None:
            late()
            came.append(i)
            dist.all_gather_into_tensor(whole, part, async_op=True).get_future().add_done_callback(gathered)

        def gathered(_: Any) -> None:
            late()
            dist.all_reduce(whole, async_op=True).get_future().then(summed).then(lambda f: result.set_result(f.value()))

        def summed(future: Any) -> Any:
            late()
            dist.broadcast(first := torch.tensor([1.0 + dist.get_rank()]), 0)
            return future.value()[0] * first

        future = dist.reduce_scatter_tensor(part, whole, async_op=True).get_future()
        late()
        future.add_done_callback(scattered)
        return result

    right = []
    for _ in range(4):
        came.clear()
        futures = []
        for i in range(8):
            late()
            futures.append(bucket(i))
            dist.all_reduce(torch.ones(3), async_op=i % 2 == 0)
        right += [bool((f.wait() == i * n * n).all()) for i, f in enumerate(futures)] + [came == list(range(8))]
    return right


@pytest.mark.parametrize("n, seed", [(2, 1), (2, 2), (4, 3)])
def test_all_ranks_make_the_calls_of_callbacks_in_one_order(worlds: Worlds, n: int, seed: int) -> None:
    assert worlds(n).run(_buckets, seed) == [[True] * 36] * n


def _hung_in_another_order(seed: int) -> list[float]:
    import torch
    import torch.distributed as dist

    late, totals = _late(seed), []

    def then(_: Any) -> None:
        late()
        totals.append(x := torch.full((2 + len(totals),), 1.0))
        dist.all_reduce(x, async_op=True)

    for _ in range(10):
        futures = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(3)]
        late()
        hung = [futures[i].then(then) for i in (2, 0, 1, 0)]
        late()
        hung += [hung[2].then(then), futures[1].then(then)]
        for future in hung:
            future.wait()
    dist.barrier()
    return [float(x.mean()) for x in totals]


def test_they_come_in_the_order_in_which_they_were_hung(worlds: Worlds) -> None:
    for totals in worlds(2).run(_hung_in_another_order, 5):
        assert len(totals) == 60


def _waits_for_a_later_callback(how: str) -> list[float]:
    import torch
    import torch.distributed as dist

    def again(future: Any) -> Any:
        [x] = future.value()
        return dist.all_reduce(x, async_op=True).get_future().wait()[0]

    def all_of_its_own(_: Any) -> Any:
        works = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(3)]
        return torch.futures.wait_all([work.get_future().then(again) for work in works])[2]

    dist.barrier()
    later: list[Any] = []
    if dist.get_rank() == 1:  # comes when rank 0 has hung all of them
        dist.recv(torch.zeros(1), 0)
    first, second = [dist.all_reduce(torch.ones(1), async_op=True).get_future() for _ in range(2)]

    def waits(_: Any) -> Any:
        return later[0].wait() if later else torch.tensor(4.0)  # on rank 1 it may run at once

    waiting = first.then(all_of_its_own if how == "own" else waits)
    later.append(second.then(again).then(lambda f: f.value()) if how == "chain" else second.then(again))
    if dist.get_rank() == 0:
        dist.send(torch.zeros(1), 1)
    return [float(waiting.wait()), float(later[0].wait())]


@pytest.mark.parametrize("how", ["then", "chain", "own"])
def test_one_may_wait_for_another(worlds: Worlds, how: str) -> None:
    assert worlds(2).run(_waits_for_a_later_callback, how) == [[4.0, 4.0]] * 2


def _endless(length: int) -> tuple[float, int]:
    """Each callback makes the next call, and nobody waits in one."""
    import threading

    import torch
    import torch.distributed as dist

    threads, over = threading.active_count(), threading.Event()
    x, left = torch.zeros(1), [length]

    def then(_: Any) -> None:
        if left[0] == 0:
            over.set()
            return
        left[0] -= 1
        x.add_(1)
        dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True).get_future().add_done_callback(then)

    then(None)
    assert over.wait(20)
    return float(x), threading.active_count() - threads


def test_a_chain_without_an_end(worlds: Worlds) -> None:
    for last, threads in worlds(2).run(_endless, 500):
        assert last == 500.0
        assert threads < 10


def _across_groups(seed: int) -> list[float]:
    """Sums in pairs whose callbacks sum across the pairs, whose callbacks send the sum to the pairs."""
    import torch
    import torch.distributed as dist

    late, rank = _late(seed), dist.get_rank()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    across = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    mine, others = pairs[rank // 2], across[rank % 2]

    def bucket(x: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
        result: torch.futures.Future[torch.Tensor] = torch.futures.Future()

        def in_the_pair(_: Any) -> None:
            late()
            dist.all_reduce(x, group=others, async_op=True).get_future().add_done_callback(across_pairs)

        def across_pairs(_: Any) -> None:
            late()
            dist.all_reduce(x, dist.ReduceOp.MAX, group=mine, async_op=True).get_future().add_done_callback(
                lambda _: result.set_result(x)
            )

        dist.all_reduce(x, group=mine, async_op=True).get_future().add_done_callback(in_the_pair)
        late()
        return result

    futures = [bucket(torch.full((i + 1,), float(i + rank))) for i in range(8)]
    means = [float(future.wait().mean()) for future in futures]
    for group in (*pairs, *across):
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    return means


def test_across_groups(worlds: Worlds) -> None:
    for seed in range(3):
        assert worlds(4).run(_across_groups, seed) == [[6.0 + 4 * i for i in range(8)]] * 4


def _as_in_torch() -> list[Any]:
    import torch
    import torch.distributed as dist

    group, seen = dist.group.WORLD, list[Any]()
    for work in (dist.all_reduce(torch.ones(1), async_op=True), group.allreduce([torch.ones(1)])):
        future = work.get_future()
        future.wait()
        future.add_done_callback(lambda f: seen.append(f.value()[0].item()))  # runs at once
        seen.append(future.then(lambda f: seen.append(type(f.value()))).done())
        failed = future.then(lambda f: 1 / 0)
        waits = [failed.wait, partial(torch.futures.wait_all, [future, failed]), failed.then(lambda f: f.value()).wait]
        for wait in waits:
            with pytest.raises(RuntimeError, match="division by zero"):
                wait()
    mine: torch.futures.Future[int] = torch.futures.Future()
    then = mine.then(lambda f: f.value() + 1)
    mine.set_result(1)
    return [*seen, then.wait()]


def test_otherwise_as_in_torch(worlds: Worlds) -> None:
    assert worlds(2).run(_as_in_torch) == [[2.0, list, True] * 2 + [2]] * 2


def _numbers() -> tuple[int, int, str]:
    """Callbacks' calls have numbers of their own, which are the same on all ranks however they come."""
    import torch
    import torch.distributed as dist

    group = dist.new_group()
    before = group._get_sequence_number_for_group()
    future = dist.all_reduce(torch.ones(1), group=group, async_op=True).get_future()
    hung = future.then(lambda _: dist.all_reduce(torch.ones(1), group=group))
    dist.all_reduce(torch.ones(1), group=group)
    hung.wait()

    def fails(_: Any) -> None:
        if dist.get_rank() == 0:
            dist.all_reduce(torch.ones(2), group=group)
        else:
            dist.broadcast(torch.ones(2), 0, group=group)

    try:
        future.then(fails).wait()
        message = "nothing"
    except RuntimeError as error:
        message = str(error)
    after = group._get_sequence_number_for_group()
    dist.destroy_process_group(group)
    return before, after, message


def test_differences_in_a_callback_raise(worlds: Worlds) -> None:
    for before, after, message in worlds(2).run(_numbers):
        assert (before, after) == (0, 2)
        assert "sequence number 2" in message
        assert "callbacks1" in message
        assert "broadcast" in message
