"""torch.profiler's events for a group's operations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds
from tests.waiting import until


def _profiled(async_op: bool, autograd: bool) -> list[tuple[Any, ...]]:
    import torch
    import torch.distributed as dist

    x, y = torch.ones(2, 3), torch.ones(4)
    kind = torch.autograd.profiler.profile if autograd else torch.profiler.profile
    with kind(record_shapes=True) as profile:
        works = [dist.all_reduce(x, async_op=async_op), dist.broadcast(y, 0, async_op=async_op)]
        if async_op:
            for work in works:
                work.wait()
    events = profile.function_events if autograd else profile.events()
    ours = [event for event in events if event.name.startswith("ringtree:")]
    return [(e.name, e.input_shapes, e.is_async, e.count, e.cpu_time > 0) for e in ours]


@pytest.mark.parametrize("autograd", [False, True])
@pytest.mark.parametrize("async_op", [False, True])
def test_every_operation_is_an_event_with_its_name_and_shapes(worlds: Worlds, async_op: bool, autograd: bool) -> None:
    expected = [
        ("ringtree:all_reduce", [[2, 3]], True, 1, True),
        ("ringtree:broadcast", [[4]], True, 1, True),
    ]
    assert worlds(2).run(_profiled, async_op, autograd) == [expected] * 2


def _durations() -> tuple[float, float]:
    """Seconds that the operation took by the profiler, and until this rank waited for it, or slept before it came: rank
    1 comes late, and rank 0 asks late."""
    import time

    import torch
    import torch.distributed as dist

    x, token = torch.ones(8), torch.ones(1)
    dist.all_reduce(x)
    with torch.profiler.profile() as profile:
        if dist.get_rank() == 1:
            dist.recv(token, 0)
            begun_s = time.monotonic()
            time.sleep(0.5)
            until_s = time.monotonic() - begun_s
        begun_s = time.monotonic()
        work = dist.all_reduce(x, async_op=True)
        if dist.get_rank() == 0:
            dist.send(token, 1)
            dist.recv(token, 1)
            until(work.is_completed)
            time.sleep(0.5)
            until_s = time.monotonic() - begun_s
        work.wait()
        if dist.get_rank() == 1:
            dist.send(token, 0)
    [took_s] = [e.cpu_time / 1e6 for e in profile.events() if e.name == "ringtree:all_reduce"]
    return took_s, until_s


def test_an_asynchronous_event_spans_its_operation(worlds: Worlds) -> None:
    """Not until somebody waited for it: rank 0's ends with rank 1's coming, before rank 0 asks."""
    (took_s, until_s), (short_s, slept_s) = worlds(2).run(_durations)
    assert slept_s <= took_s < until_s
    assert short_s < took_s
