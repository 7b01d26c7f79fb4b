"""Calls that look like an earlier one are one native call, however they were written."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e5m2

from ringtree.ir.collective import COLLECTIVES
from ringtree.runtime.arrays import PAIR_DTYPES
from ringtree.runtime.communicator.calls.codes import CODE
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.spawn import spawn
from ringtree.runtime.observing.worlds import worlds
from ringtree.runtime.types import Dtype
from tests.runtime.conftest import Pools
from tests.waiting import Event, until
from tests.way_in import passed

N = 3
X = np.arange(4.0 * N, dtype=np.float32)
OUT = np.zeros((N, 4 * N), np.float32)  # a rank's own: ranks may be threads
WIDE = np.zeros((N, N, 4 * N), np.float32)

CALLS: dict[str, Callable[[Communicator], Any]] = {
    "all_reduce": lambda c: c.all_reduce(X),
    "all_reduce out": lambda c: c.all_reduce(X, out=OUT[c.rank]),
    "all_reduce by ring": lambda c: c.all_reduce(X, algorithm="ring"),
    "all_reduce in order": lambda c: c.all_reduce(X, deterministic="rank_order"),
    "reduce_scatter": lambda c: c.reduce_scatter(X.reshape(N, 4), "max"),
    "reduce_scatter out": lambda c: c.reduce_scatter(X, out=OUT[c.rank, :4]),
    "all_gather": lambda c: c.all_gather(X.reshape(2, -1)),
    "all_gather out": lambda c: c.all_gather(X, out=WIDE[c.rank]),
    "reduce_scatter in place": lambda c: c.reduce_scatter(
        OUT[c.rank], "max", out=OUT[c.rank, 4 * c.rank : 4 * c.rank + 4]
    ),
    "all_gather in place": lambda c: c.all_gather(WIDE[c.rank, c.rank], out=WIDE[c.rank]),
    "gather in place": lambda c: c.gather(WIDE[c.rank, c.rank], 1, out=WIDE[c.rank]),
    "all_to_all": lambda c: c.all_to_all(X),
    "all_to_all out": lambda c: c.all_to_all(X, out=OUT[c.rank]),
    "all_to_all by bruck": lambda c: c.all_to_all(X, algorithm="bruck"),
    "broadcast": lambda c: c.broadcast(OUT[c.rank], 1),
    "reduce": lambda c: c.reduce(X, root=1),
    "gather": lambda c: c.gather(X, 1),
    "scatter": lambda c: c.scatter(X, 1, OUT[c.rank, :4]),
    "scan": lambda c: c.scan(X, "max"),
    "exscan": lambda c: c.exscan(X),
    "barrier": lambda c: c.barrier(),
} | {
    f"all_reduce of {kind}": partial(lambda x, c: c.all_reduce(x, out=x), np.zeros(5, kind)) for kind in "?bhlqBHIQeFD"
}


def test_every_collective_has_a_code_below_their_number() -> None:
    assert CODE.keys() == COLLECTIVES.keys()
    assert sorted(CODE.values()) == list(range(len(COLLECTIVES)))


def short(comm: Communicator, name: str) -> None:
    act, calls = CALLS[name], comm._calls
    first = act(comm)
    first = None if first is None else first.copy()
    performed = []
    perform = calls.perform
    calls.perform = lambda *given: performed.append(given) or perform(*given)  # type: ignore[func-returns-value, method-assign]
    try:
        again = act(comm)
    finally:
        del calls.perform  # type: ignore[method-assign]
    assert not performed, f"{name} took the slow path"
    assert np.array_equal(again, first) if first is not None else again is None


@pytest.mark.parametrize("name", list(CALLS))
def test_the_second_call_is_short(pools: Pools, engine: str, name: str) -> None:
    pools(engine, N).run(short, name)


ADDRESSED: dict[str, Callable[[Communicator], Any]] = {
    f"{kind} {what}": partial(act, np.ones(2 * N, kind))
    for kind in (bfloat16, float8_e5m2, PAIR_DTYPES[Dtype.FLOAT32_INT32])
    for what, act in {
        "all_reduce": lambda x, c: c.all_reduce(x, "max" if x.dtype.names is None else "maxloc"),
        "all_gather": lambda x, c: c.all_gather(x),
        "all_to_all": lambda x, c: c.all_to_all(x),
        "broadcast": lambda x, c: c.broadcast(x.copy(), 1),
        "reduce": lambda x, c: c.reduce(x, "min" if x.dtype.names is None else "minloc", 2),
        "gather by flat": lambda x, c: c.gather(x, algorithm="flat"),
    }.items()
} | {
    "raw bits": lambda c: c.all_reduce(np.full(9, 0x3F80, np.uint16), dtype="bfloat16"),
    "a strided array": lambda c: c.all_reduce(np.arange(10.0)[::2]),
    "a list": lambda c: c.all_reduce([1, 2, 3]),
}


def addressed(comm: Communicator, name: str) -> None:
    first = ADDRESSED[name](comm)
    made: list[Any] = []
    comm._calls._make = lambda *given: made.append(given)  # type: ignore[method-assign]
    try:
        again = ADDRESSED[name](comm)
    finally:
        del comm._calls._make  # type: ignore[method-assign]
    assert not made, f"{name} took the slow path"
    assert first is again is None or (np.asarray(first) == again).all()


@pytest.mark.parametrize("name", list(ADDRESSED))
def test_an_array_without_a_buffer_is_passed_by_address(pools: Pools, engine: str, name: str) -> None:
    pools(engine, N).run(addressed, name)


def meanings(comm: Communicator) -> None:
    """Bits that look alike and mean different things, in turn: what is learnt of one is not used for another."""
    bits, n = np.full(9, 0x3F80, np.uint16), comm.size
    for _ in range(3):
        assert (comm.all_reduce(bits) == np.uint16(0x3F80 * n & 0xFFFF)).all()
        assert (comm.all_reduce(bits, dtype="bfloat16").view(bfloat16) == n).all()
        assert (comm.all_reduce(bits, dtype="float16").view(np.float16) == np.float16(n * 1.875)).all()
        assert (comm.all_reduce(np.ones(9, np.int16)) == n).all()
        assert (comm.all_reduce(np.ones(9, bfloat16)) == n).all()
        assert (comm.all_reduce(np.ones(9, np.float16)) == n).all()
        with pytest.raises(TypeError, match=">u2 is not supported"):
            comm.all_reduce(bits.astype(">u2"))


def test_raw_bits_are_not_taken_for_plain_integers(pools: Pools, engine: str) -> None:
    pools(engine, N).run(meanings)


def other_rows(comm: Communicator) -> list[str]:
    """As many elements as in the calls before, but no block a rank."""
    n, refusals = comm.size, []
    acts: list[Callable[[Any], Any]] = [
        lambda x: comm.reduce_scatter(x, out=np.empty(2)),
        lambda x: comm.all_to_all(x, out=np.empty(2 * n)),
        lambda x: comm.scatter(x, 0, np.empty(2)),
    ]
    for act in acts:
        act(np.ones((n, 2)))
    for act in acts if comm.rank == 0 else []:
        with pytest.raises(ValueError, match="a first axis that") as refused:
            act(np.ones((2, n)))
        refusals.append(str(refused.value))
    comm.barrier()
    return refusals


def test_refusals_are_repeated_on_the_fast_path(pools: Pools, engine: str) -> None:
    first, *others = pools(engine, 3).run(other_rows)
    assert first == ["x has 2 rows; expected a first axis that 3 ranks divide evenly"] * 3
    assert not any(others)


MANY = {"all_reduce": ("sum",), "reduce_scatter": ("sum",), "all_gather": (), "all_to_all": ()}
ROOTED: dict[str, Callable[[Communicator, Any, Any], Any]] = {
    "broadcast": lambda c, x, out: c.broadcast(x, 1),
    "reduce": lambda c, x, out: c.reduce(x, root=1, out=out),
    "reduce of another operation": lambda c, x, out: c.reduce(x, "max", 1),
    "gather": lambda c, x, out: c.gather(x, 1, out=out),
    "scatter": lambda c, x, out: c.scatter(x, 1, out),
    "scatter by name": lambda c, x, out: c.scatter(root=1, x=x if c.rank == 1 else None, out=out),
    "scan": lambda c, x, out: c.scan(x, out=out),
}


def straight(comm: Communicator, name: str) -> None:
    call = getattr(comm, name)
    for kind in (np.float32, np.int64, bfloat16, float8_e5m2):
        x = np.ones((2 * N, 3), kind)
        out = call(x)
        assert passed(lambda x=x: call(x)) == passed(lambda x=x, out=out: call(x, out=out)) == []
        again, mine = call(x), call(x, out=out)
        assert mine is out and again is not out and again.dtype == x.dtype and again.tobytes() == out.tobytes()
        work = call(x, *MANY[name], out=out, async_op=True)
        assert work.result() is out and work.done() and work.wait(1.0) and out.tobytes() == again.tobytes()


@pytest.mark.parametrize("name", MANY)
def test_a_repeated_call_is_one_native_call(pools: Pools, name: str) -> None:
    pools("shm", N).run(straight, name)


def straight_rooted(comm: Communicator, name: str, in_torch: bool) -> None:
    """With `out` and, on the root, without; the results are those of the slow path."""
    x, rows = np.arange(6.0).reshape(2 * comm.size, -1), {"gather": comm.size, "scatter": 1 / comm.size}
    out = np.zeros(int(6 * rows.get(name.split()[0], 1)))
    if in_torch:
        import torch

        x, out = torch.from_numpy(x), torch.from_numpy(out)
    act = ROOTED[name]
    slow = act(comm, x, out)
    expected = None if slow is None else slow.tolist()
    assert passed(lambda: act(comm, x, out)) == []
    made = act(comm, x, out)
    assert made is slow or (name.startswith("reduce of") and type(made) is type(x))
    assert made is None or made.tolist() == expected
    if name in ("gather", "reduce"):
        assert passed(lambda: act(comm, x, None)) == []
        made = act(comm, x, None)
        assert (made is None) == (comm.rank != 1)
        assert made is None or (made.dtype == x.dtype and made.reshape(-1).tolist() == out.tolist())


@pytest.mark.parametrize("name", ROOTED)
def test_a_repeated_call_with_a_root_is_one_native_call(pools: Pools, name: str) -> None:
    pools("shm", 3).run(straight_rooted, name, False)


@pytest.mark.torch
@pytest.mark.parametrize("name", ROOTED)
def test_a_repeated_call_of_tensors_with_a_root_is_one_native_call(name: str) -> None:
    spawn(straight_rooted, 3, name, True, timeout_s=60)


def barriers(comm: Communicator) -> None:
    """Also by a plan that takes the place of a forgotten one."""
    for promise in ("", "rank_order", ""):
        comm.set_reductions(deterministic=promise or False)
        assert not comm.call_barrier()
        comm.barrier()
        assert passed(comm.barrier) == []
        comm.barrier(algorithm="dissemination")
        assert passed(comm.barrier) == [] and comm.call_barrier()


def test_a_repeated_barrier_is_one_native_call(pools: Pools) -> None:
    pools("shm", N).run(barriers)


def alone(comm: Communicator) -> None:
    """A rank alone has made the call when it has started it."""
    x = np.full(3, 2.0)
    comm.all_reduce(x, out=x)
    work = comm.all_reduce(x, out=x, async_op=True)
    assert work.done() and work.wait() and work.wait(0.0) and work.result() is x and x.tolist() == [2.0] * 3
    with pytest.raises(TypeError, match="is this process's own"):
        work.__reduce__()
    assert comm.all_reduce(np.float64(3), async_op=True).result() == 3


def test_the_work_of_a_rank_alone_has_ended(pools: Pools) -> None:
    pools("shm", 1).run(alone)


class MaskedOfAProgram(np.ma.MaskedArray[Any, Any]):
    """A class made from numpy's."""


def odd(comm: Communicator) -> None:
    """Arrays that the fast path must not take for those of earlier calls."""
    n, x = comm.size, np.arange(4.0)
    for _ in range(3):
        assert comm.all_reduce(x).tolist() == [0, n, 2 * n, 3 * n]
        assert comm.all_reduce(x[::-1]).tolist() == [3 * n, 2 * n, n, 0]
        assert comm.all_reduce(np.float64(2)) == comm.all_reduce(np.array(2.0)) == 2 * n
        assert comm.all_reduce(np.array(2.0)).shape == () and comm.all_gather(np.array(2.0)).shape == (n,)
        assert comm.all_reduce(memoryview(x)).tolist() == [0, n, 2 * n, 3 * n]
        out = np.empty(4)
        assert comm.all_reduce(memoryview(x), out=out) is out and out.tolist() == [0, n, 2 * n, 3 * n]
        assert comm.all_reduce(x, out=memoryview(out)).tolist() == [0, n, 2 * n, 3 * n]
        unaligned = np.zeros(33, np.uint8)[1:].view(np.float64)
        unaligned += 1
        assert comm.all_reduce(unaligned).tolist() == [n] * 4
        shifted = memoryview(bytearray(33))[1:].cast("d")
        assert comm.all_reduce(memoryview(x), out=memoryview(out)).tolist() == [0, n, 2 * n, 3 * n]
        assert comm.all_reduce(shifted).tolist() == [0] * 4
        with pytest.raises(ValueError, match="out is not aligned"):
            comm.all_reduce(memoryview(x), out=shifted)
        empty = np.empty((0, 3), np.float32)
        assert comm.all_reduce(empty).shape == (0, 3) and comm.all_gather(empty).shape == (n, 0, 3)
        with pytest.raises(ValueError, match="read-only"):
            comm.all_reduce(x, out=np.frombuffer(bytes(32)))
        with pytest.raises(TypeError, match="datetime64"):
            comm.all_reduce(np.zeros(4, "M8[s]"))
        for masked in (np.ma.masked_array(x, [0, 1, 0, 0]), np.ma.MaskedArray(x).view(MaskedOfAProgram)):
            with pytest.raises(TypeError, match=r"the array has a mask.*; expected x\.filled\(value\), or x\.data"):
                comm.all_reduce(masked)
            with pytest.raises(TypeError, match="out has a mask"):
                comm.all_reduce(x, out=masked)
        assert comm.broadcast(np.ones(4), 1).tolist() == comm.broadcast(np.ones(4), np.int64(1)).tolist() == [1] * 4
        with pytest.raises(TypeError, match="root is True"):
            comm.broadcast(np.ones(4), True)


def test_odd_arrays_are_not_taken_for_plain_ones(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(odd)


def straight_of_tensors(comm: Communicator, name: str) -> None:
    import torch

    call = getattr(comm, name)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e5m2, torch.complex64):
        x = torch.ones(2 * comm.size, 3).to(dtype)
        out = call(x)
        assert passed(lambda x=x: call(x)) == passed(lambda x=x, out=out: call(x, out=out)) == []
        again = call(x)
        assert type(again) is torch.Tensor and again.dtype is dtype and again.shape == out.shape
        bits = [t.contiguous().view(-1).view(torch.uint8).tolist() for t in (again, out)]
        assert bits[0] == bits[1] and again.data_ptr() not in (x.data_ptr(), out.data_ptr())
        assert call(x, out=out, async_op=True).result() is out and call(x, async_op=True).result().shape == out.shape
    x = torch.ones(2 * comm.size, 3)
    expected = call(-x).tolist()
    for odd in (torch._neg_view(x), (-x).t().contiguous().t(), torch.nn.Parameter(-x)):
        assert call(odd).tolist() == expected


@pytest.mark.torch
@pytest.mark.parametrize("name", MANY)
def test_a_repeated_call_of_tensors_is_one_native_call(name: str) -> None:
    spawn(straight_of_tensors, 2, name, timeout_s=60)


def resized(comm: Communicator, waits: Event, tried: Event, async_op: bool) -> str:
    """Returns the error of rank 0, which resizes an array of a repeated call that rank 1 has yet to make."""
    x, out, error = bytearray(1 << 16), bytearray(1 << 16), ""
    for _ in range(2):
        comm.all_reduce(x, out=out)
    first = comm.all_gather(np.array(os.getpid()))[0]
    if comm.rank:
        until(lambda: any(world.ranks[0].waits for world in worlds() if world.ranks[0].pid == first))
        waits.set()
        tried.wait()
        comm.all_reduce(x, out=out)
        return ""
    made = [comm.all_reduce(x, out=out, async_op=True)] if async_op else []
    call = Thread(target=made[0].wait if made else partial(comm.all_reduce, x, out=out))
    call.start()
    waits.wait()
    try:
        out.extend(b"more")
    except BufferError as refused:
        error = str(refused)
    tried.set()
    call.join()
    return error


@pytest.mark.parametrize("async_op", [False, True])
def test_the_memory_of_a_repeated_call_stays_until_it_is_over(async_op: bool) -> None:
    found = spawn(resized, 2, Event(), Event(), async_op)
    assert "cannot be re-sized" in found[0]
