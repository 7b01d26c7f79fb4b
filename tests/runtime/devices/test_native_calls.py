"""Repeated calls of devices' programs are native, by the engine whose device is this machine's processor; and what must
not be taken for a repeated call is not."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ringtree import Mismatch, PeerDied, Poisoned, RankFailed, TimedOut
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.spawn import spawn
from tests.runtime.conftest import Pools
from tests.way_in import passed

N = 3


@contextmanager
def native(comm: Communicator, calls: int) -> Iterator[None]:
    """In the block, so many of the group's calls are native."""
    endpoint: Any = comm._endpoint
    before = endpoint.native_calls
    yield
    assert endpoint.native_calls - before == calls


def run(act: Callable[..., Any], *given: Any, ranks: int = N, **options: Any) -> list[Any]:
    return spawn(act, ranks, *given, engine="emulated", **options)


CALLS: dict[str, Callable[[Communicator, Any], Any]] = {
    "all_reduce": lambda c, x: c.all_reduce(x),
    "all_reduce out": lambda c, x: c.all_reduce(x, out=x.copy()),
    "all_reduce in place": lambda c, x: c.all_reduce(y := x.copy(), out=y),
    "all_reduce by ring": lambda c, x: c.all_reduce(x, algorithm="ring"),
    "reduce_scatter": lambda c, x: c.reduce_scatter(x, "max"),
    "all_gather": lambda c, x: c.all_gather(x),
    "all_to_all": lambda c, x: c.all_to_all(x),
    "broadcast": lambda c, x: c.broadcast(x.copy(), 1),
    "reduce": lambda c, x: c.reduce(x, root=2),
    "gather": lambda c, x: c.gather(x, 1),
    "scatter": lambda c, x: c.scatter(x, 1, x[:1].copy()),
    "scan": lambda c, x: c.scan(x),
    "barrier": lambda c, x: c.barrier(),
}


def repeated(comm: Communicator, name: str, size: int) -> None:
    """The results and the counters of native calls are those of one that is not."""
    act = CALLS[name]
    x = np.arange(float(N * size)).reshape(N, size) * (comm.rank + 1)
    found = []
    act(comm, x)
    for calls in (0, 1, 1):
        comm._endpoint._native.queue(1 - calls)  # as if another call were to come first
        comm.reset_counters()
        begun = comm._endpoint.calls
        with native(comm, calls):
            result = act(comm, x)
        bits = None if result is None else result.tobytes()
        found.append((bits, comm.counters().tolist(), comm._endpoint.calls - begun))
        comm._endpoint._native.queue(calls - 1)
    assert found[0] == found[1] == found[2] and found[0][2] == 1


@pytest.mark.parametrize("size", [1, 50_000])
@pytest.mark.parametrize("name", list(CALLS))
def test_a_repeated_call_is_native(pools: Pools, name: str, size: int) -> None:
    pools("emulated", N).run(repeated, name, size)


def straight(comm: Communicator) -> None:
    x = np.ones(4)
    out = comm.all_reduce(x)
    assert passed(lambda: comm.all_reduce(x)) == passed(lambda: comm.all_reduce(x, out=out)) == []
    assert passed(lambda: comm.broadcast(x)) == []


def test_nothing_of_a_native_call_is_decided_in_python(pools: Pools) -> None:
    pools("emulated", N).run(straight)


def odd(comm: Communicator) -> None:
    x, n = np.arange(4.0), comm.size
    comm.all_reduce(x), comm.all_reduce(x.astype(np.float32)), comm.all_reduce(np.float64(1))
    with native(comm, 0):
        assert comm.all_reduce([0.0, 1, 2, 3]).tolist() == (n * x).tolist()
        assert comm.all_reduce(x[::-1]).tolist() == (n * x[::-1]).tolist()
        assert comm.all_reduce(np.arange(5.0)).tolist() == [0, n, 2 * n, 3 * n, 4 * n]
        assert comm.all_reduce(x, "max").tolist() == x.tolist()
        assert comm.all_reduce(x.astype(np.float16)).tolist() == (n * x).tolist()
        shifted = np.arange(5.0)
        comm.all_reduce(shifted[:4], out=shifted[1:])  # copied: they overlap, but not position by position
        assert shifted.tolist() == [0, 0, n, 2 * n, 3 * n]
        with pytest.raises(TypeError, match="expected float64"):
            comm.all_reduce(x, out=np.empty(4, np.float32))
        with pytest.raises(ValueError, match="read-only"):
            comm.all_reduce(x, out=np.frombuffer(bytes(32)))
    with native(comm, 1):
        comm.all_reduce(x)


def test_what_looks_otherwise_is_not_native(pools: Pools) -> None:
    pools("emulated", N).run(odd)


def later_memory(comm: Communicator) -> None:
    """A plan was launched on private arrays, and is again on memory that peers have come to reach since, and back."""
    n, size = comm.size, 20_000
    private = np.full(size, 1.0 + comm.rank)
    expected = n * (n + 1) / 2
    for _ in range(3):
        assert (comm.all_reduce(private) == expected).all()
        shared, other = comm.empty(size, np.float64), comm.empty(size, np.float64)
        with native(comm, 3):
            shared[:] = private
            assert (comm.all_reduce(shared, out=other) == expected).all()
            assert (comm.all_reduce(shared, out=shared) == expected).all()
            assert (comm.all_reduce(private, out=other) == expected).all()


def test_memory_that_peers_reach_later_is_read_in_place(pools: Pools) -> None:
    pools("emulated", N).run(later_memory)


def queued(comm: Communicator) -> None:
    """A call behind those that are under way is not native: it would come before them."""
    n, x = comm.size, np.ones(1000)
    comm.all_reduce(x, out=x.copy())
    for _ in range(20):
        y = x.copy()
        works = [comm.all_reduce(y, out=y, async_op=True) for _ in range(3)]
        comm.all_reduce(y, out=y)
        assert y[0] == n**4 and all(work.done() for work in works)
    with native(comm, 1):
        comm.all_reduce(x, out=y)


def test_a_call_behind_queued_ones_waits_for_its_turn(pools: Pools) -> None:
    pools("emulated", 2).run(queued)


def forgotten(comm: Communicator) -> None:
    x = np.ones(4)
    comm.all_reduce(x)
    comm.set_reductions()
    with native(comm, 0):
        comm.all_reduce(x)
    with native(comm, 1):
        comm.all_reduce(x)


def test_a_plan_that_was_forgotten_is_not_launched(pools: Pools) -> None:
    pools("emulated", 2).run(forgotten)


def taken(comm: Communicator) -> None:
    """Another thread has its turn."""
    x, turn = np.ones(4), comm._endpoint._native
    comm.all_reduce(x)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with turn:
            entered.set()
            leave.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait()
    assert comm.call_shaped(0, x, None, "sum", -1, 0) is None
    threading.Timer(0.1, leave.set).start()
    with native(comm, 0):
        assert comm.all_reduce(x).tolist() == [comm.size] * 4
    holder.join()
    with native(comm, 1):
        comm.all_reduce(x)


def test_one_thread_launches_at_a_time(pools: Pools) -> None:
    pools("emulated", 2).run(taken)


def until_it_fails(comm: Communicator, end: Callable[[Communicator], object]) -> tuple[str, str, float]:
    """Rank 1 ends native calls in its way: the others' error, and after how long; the group is poisoned then."""
    x, out = np.ones(4), np.empty(4)
    for _ in range(100):
        comm.all_reduce(x, out=out)
    assert comm._endpoint.native_calls == 99
    if comm.rank == 1:
        end(comm)
        return "none", "", 0.0
    begun_s = time.monotonic()
    try:
        with native(comm, 0):
            comm.all_reduce(x, out=out)
    except (PeerDied, Mismatch, TimedOut) as error:
        with pytest.raises(Poisoned):
            comm.all_reduce(x, out=out)
        return type(error).__name__, str(error), time.monotonic() - begun_s
    return "none", "", 0.0


def killed(comm: Communicator) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def late(comm: Communicator) -> None:
    time.sleep(2)


def other(comm: Communicator) -> None:
    comm.all_reduce(np.ones(5))


def survivor(comm: Communicator) -> None:
    kind, text, took_s = until_it_fails(comm, killed)
    assert kind == "PeerDied" and "rank 1" in text and took_s < 2


def test_a_peer_that_dies_ends_a_native_call() -> None:
    with pytest.raises(RankFailed) as failed:
        run(survivor)
    assert failed.value.rank == 1 and "SIGKILL" in str(failed.value)


def test_a_native_call_waits_as_long_as_the_group_does() -> None:
    # of two ranks, as of two that wait the first to give up ends the other's wait
    kind, text, took_s = run(lambda comm: until_it_fails(comm, late), ranks=2, timeout_s=1)[0]
    assert kind == "TimedOut" and "rank 0 waited 1 s for rank 1" in text and 0.9 < took_s < 2
    assert "in all_reduce(sum, float64, count 4)" in text


def test_native_calls_that_differ_are_named() -> None:
    def act(comm: Communicator) -> tuple[str, str, float]:
        comm.all_reduce(np.ones(5))  # so that rank 1's other call is native, too
        try:
            return until_it_fails(comm, other)
        except Mismatch as error:
            return "Mismatch", str(error), 0.0

    for kind, text, _ in run(act):
        assert kind == "Mismatch" and "count 4" in text and "count 5" in text


def closed(comm: Communicator) -> str:
    x = np.ones(4)
    comm.all_reduce(x), comm.all_reduce(x)
    kept, calls = comm.call_shaped, comm._endpoint._native
    comm.barrier()
    comm.close()
    assert kept(0, x, None, "sum", -1, 0) is None and calls.call(0, x, x, "sum", -1) is False
    with pytest.raises(RuntimeError, match="is closed"):
        comm.all_reduce(x)
    return "closed"


def test_nothing_is_launched_when_the_group_is_closed() -> None:
    assert run(closed) == ["closed"] * N


def forked(comm: Communicator) -> int:
    x = np.ones(4)
    comm.all_reduce(x), comm.all_reduce(x)
    if not (child := os.fork()):
        try:
            comm.all_reduce(x)
        except RuntimeError as error:
            os._exit("is a fork of rank" not in str(error))
        os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with native(comm, 1):
        comm.all_reduce(x)
    return status


def test_a_fork_launches_nothing() -> None:
    assert run(forked) == [0] * N
