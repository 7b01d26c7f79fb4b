"""Calls within torch's dispatch modes, and calls of tensors that are shapes only: as with Gloo, where ringtree can."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds, kept

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def replaced() -> Iterator[Worlds]:
    yield from kept({"RINGTREE_REPLACES": "gloo"})


def shapes_only(device: str) -> list[int]:
    """Every call of such tensors ends at once on one rank alone; and the next real call has the next number."""
    import torch
    import torch.distributed as dist
    from torch._subclasses.fake_tensor import FakeTensorMode

    rank = dist.get_rank()
    if rank == 0:
        with warnings.catch_warnings(), FakeTensorMode() if device == "fake" else nullcontext():
            warnings.simplefilter("ignore", FutureWarning)  # torch's, of older names
            place = {"device": "meta"} if device == "meta" else {}
            x, both = torch.ones(4, **place), torch.ones(8, **place)
            row = [torch.ones(4, **place) for _ in range(2)]
            calls: list[Callable[[], Any]] = [
                lambda: dist.all_reduce(x),
                lambda: dist.broadcast(x, 0),
                lambda: dist.reduce(x, 0),
                lambda: dist.all_gather_into_tensor(both, x),
                lambda: dist.reduce_scatter_tensor(x, both),
                lambda: dist.all_to_all_single(both, both.clone()),
                lambda: dist.all_gather(row, x),
                lambda: dist.reduce_scatter(x, row),
                lambda: dist.all_to_all(row, list(row)),
                lambda: dist.gather(x, row, 0),
                lambda: dist.scatter(x, row, 0),
                lambda: dist.send(x, 1),
            ]
            for call in calls:
                assert call() is None
            assert dist.recv(x, 1) == 1
            work = dist.all_reduce(x, async_op=True)
            assert work.is_completed() and work.wait() and work.get_future().wait()[0] is x
    real = torch.ones(2)
    dist.all_reduce(real)
    return [int(n) for n in real]


@pytest.mark.parametrize("device", ["fake", "meta"])
@pytest.mark.parametrize("backend", ["ringtree", "gloo"])
def test_calls_of_shapes_end_at_once(request: pytest.FixtureRequest, backend: str, device: str) -> None:
    fixture = "worlds" if backend == "ringtree" else "replaced"
    worlds: Worlds = request.getfixturevalue(fixture)
    assert worlds(2, backend).run(shapes_only, device) == [[2, 2]] * 2


def nested() -> None:
    import torch
    import torch.distributed as dist

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a prototype of torch's
        x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises(TypeError, match="got a nested tensor on cpu; expected a dense one on the CPU or CUDA"):
        dist.all_reduce(x)


def test_a_nested_tensor_is_refused(worlds: Worlds) -> None:
    worlds(2).run(nested)


def traced() -> list[str]:
    """After a warm-up, for a call that the engine knows is the one that asks least."""
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    from torch.fx.experimental.proxy_tensor import make_fx

    def in_place(x: Any) -> Any:
        dist.all_reduce(x)
        return x

    def exchanged(x: Any) -> Any:
        dist.send(x, 1 - dist.get_rank())
        return x

    x = torch.ones(3)
    for _ in range(3):
        dist.all_reduce(x)
    for program, name in ((in_place, "allreduce"), (exchanged, "send")):
        with pytest.raises(RuntimeError, match=f"{name} within make_fx: the graph would lack the call"):
            make_fx(program)(x)
    dist.all_reduce(x)
    graph = make_fx(lambda x: functional.all_reduce(x, "sum", dist.group.WORLD) + 0)(x).graph
    return [str(node.target) for node in graph.nodes]


def test_a_trace_that_would_lack_a_call_is_refused(worlds: Worlds) -> None:
    for targets in worlds(2).run(traced):
        assert "_c10d_functional.all_reduce.default" in targets


def watched() -> list[str]:
    import torch
    import torch.distributed as dist
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    x = torch.ones(3)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            with Watching():
                dist.all_reduce(x)
        with FlopCounterMode(display=False):
            dist.all_reduce(x)
        dist.all_reduce(x)
    assert x.tolist() == [16] * 3
    return [str(each.message) for each in found]


def test_a_mode_that_does_not_see_calls_is_warned_of_once(worlds: Worlds) -> None:
    """But one that counts operations of matrices misses nothing."""
    for [line] in worlds(2).run(watched):
        assert line.startswith("Watching does not see ringtree's collectives")
