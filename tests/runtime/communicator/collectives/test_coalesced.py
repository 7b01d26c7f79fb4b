"""Lists of arrays: the results of single calls, in the messages of one call a type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ringtree import Mismatch, Poisoned, scaled, spawn
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

Values = np.ndarray[Any, Any]


def mixed(comm: Communicator) -> list[Values]:
    """Arrays of three types and many shapes, one of them empty, one not contiguous, all with rows for every rank."""
    n, me = comm.size, comm.rank
    shapes = [(n,), (2 * n, 3), (n, 0), (3 * n, 2, 2), (n,), (4 * n, 1)]
    dtypes = [np.float32, np.int64, np.float32, np.float32, bfloat16, np.int64]
    xs = [(np.arange(np.prod(s)).reshape(s) % 50 + me).astype(d) for s, d in zip(shapes, dtypes, strict=True)]
    return [*xs, np.ones((3, 2 * n), np.float32).T * (me + 1)]


def alike(got: list[Any], want: list[Any]) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.array_equal(a, b)


def each_alone(comm: Communicator) -> None:
    xs, n = mixed(comm), comm.size
    for op in ("sum", "max", np.add, scaled(2)):
        alike(comm.all_reduce_coalesced(xs, op), [comm.all_reduce(x, op) for x in xs])
        alike(comm.reduce_scatter_coalesced(xs, op), [comm.reduce_scatter(x, op) for x in xs])
    alike(comm.all_gather_coalesced(xs), [comm.all_gather(x) for x in xs])
    for root in (0, n - 1):
        filled = [x.copy() for x in xs]
        assert [a is b for a, b in zip(comm.broadcast_coalesced(filled, root), filled, strict=True)] == [True] * len(xs)
        alike(filled, [x - comm.rank + root if i < 6 else x / (comm.rank + 1) * (root + 1) for i, x in enumerate(xs)])
    assert comm.all_reduce_coalesced([]) == []
    want = [comm.all_reduce(x, algorithm="ring", deterministic=True) for x in xs]
    ys = [np.ascontiguousarray(x) for x in xs]
    got = comm.all_reduce_coalesced(ys, out=ys, algorithm="ring")
    assert all(a is b for a, b in zip(got, ys, strict=True))
    assert all(np.allclose(a.astype(float), b.astype(float)) for a, b in zip(ys, want, strict=True))
    outs = [np.empty((n, *x.shape), x.dtype) for x in xs]
    assert comm.all_gather_coalesced(xs, out=outs)[0] is outs[0]
    alike(outs, [comm.all_gather(x) for x in xs])


def passed_once(comm: Communicator) -> None:
    """Iterators, which can be gone through once."""
    xs = [np.full(comm.size, comm.rank + 1.0), np.arange(2.0 * comm.size)]
    for op in ("sum", np.add):
        alike(comm.all_reduce_coalesced(iter(xs), op), comm.all_reduce_coalesced(xs, op))
        alike(comm.reduce_scatter_coalesced(iter(xs), op), comm.reduce_scatter_coalesced(xs, op))
        outs = [np.empty(x.shape) for x in xs]
        assert comm.all_reduce_coalesced(iter(xs), op, out=iter(outs))[1] is outs[1]
        alike(outs, comm.all_reduce_coalesced(xs, op))
    alike(comm.all_gather_coalesced(iter(xs)), comm.all_gather_coalesced(xs))
    filled = [x.copy() for x in xs]
    assert [a is b for a, b in zip(comm.broadcast_coalesced(iter(filled)), filled, strict=True)] == [True, True]
    alike(filled, [np.ones(comm.size), xs[1]])


def mistakes(comm: Communicator) -> None:
    x = np.ones(3)
    none: Any = None
    for call in (comm.all_reduce_coalesced, comm.all_gather_coalesced, comm.broadcast_coalesced):
        with pytest.raises(TypeError, match="xs is None; expected a list of arrays"):
            call(none)
    number: Any = 5
    with pytest.raises(TypeError, match="out is an int; expected a list of arrays"):
        comm.all_reduce_coalesced([x], out=number)
    counts: Any
    for counts in ([1.5, 1.5], None, 3, [-1, 4], [[3]], [True, True], [3, 2**63]):
        with pytest.raises((TypeError, ValueError), match=r"^counts (has|is) .*; expected .*numbers"):
            comm.all_reduce_packed(x, counts)
    with pytest.raises(ValueError, match="out has 1 arrays; expected 2"):
        comm.all_reduce_coalesced([x, x], out=[x])
    with pytest.raises(TypeError, match="out is float32; expected float64"):
        comm.all_reduce_coalesced([x, x], out=[x, x.astype(np.float32)])
    with pytest.raises(ValueError, match="x has 4 rows; expected a first axis that 3 ranks divide evenly"):
        comm.reduce_scatter_coalesced([x, np.ones(4)])
    assert comm.all_reduce(1) == comm.size


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_list_gives_the_results_of_single_calls(pools: Pools, engine: str, ranks: int) -> None:
    pools(engine, ranks).run(each_alone)


def test_arrays_may_come_from_an_iterator(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(passed_once)


def test_mistakes_raise_before_anything_is_sent(pools: Pools, engine: str) -> None:
    pools(engine, 3).run(mistakes)


def tensors(comm: Communicator) -> None:
    import torch

    got = comm.all_reduce_coalesced([torch.ones(3, dtype=torch.bfloat16), np.ones(2, np.float32), torch.ones(2, 2)])
    assert [type(g) for g in got] == [torch.Tensor, np.ndarray, torch.Tensor]
    assert [float(g.reshape(-1)[0]) for g in got] == [comm.size] * 3


@pytest.mark.torch
def test_tensors(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(tensors)


def traffic(comm: Communicator, call: Callable[[Communicator], object]) -> list[list[int]]:
    comm.barrier()
    comm.reset_counters()
    call(comm)
    counted: list[list[int]] = comm.counters().tolist()
    return counted


def in_one(comm: Communicator) -> None:
    comm.all_reduce_coalesced([np.ones(10 * i, np.float32) for i in range(20)] + [np.ones(4, np.int32)])


def as_two(comm: Communicator) -> None:
    comm.all_reduce(np.ones(1900, np.float32))
    comm.all_reduce(np.ones(4, np.int32))


def test_a_list_costs_one_call_a_type(pools: Pools, engine: str) -> None:
    pool = pools(engine, 3)
    assert pool.run(traffic, in_one) == pool.run(traffic, as_two)


def packed_otherwise(comm: Communicator, call: str) -> str:
    shapes = [(4,), (8,)] if comm.rank == 0 else [(8,), (4,)]
    with pytest.raises((Mismatch, Poisoned)) as raised:
        getattr(comm, call)([np.ones(shape, np.float32) for shape in shapes])
        comm.barrier()
    return str(raised.value)


@pytest.mark.parametrize(
    "call", ["all_reduce_coalesced", "reduce_scatter_coalesced", "all_gather_coalesced", "broadcast_coalesced"]
)
def test_lists_of_other_shapes_are_noticed_though_they_hold_as_much(call: str) -> None:
    messages = spawn(packed_otherwise, 2, call, timeout_s=60)
    assert any("or shapes (of a list of arrays)" in text for text in messages)
