"""Threads of a rank that call on one group at once: an error on every rank that names the group and both calls."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from ringtree import Poisoned, spawn
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import available

pytestmark = pytest.mark.skipif(not available("shm"), reason="the native engine is not built")
NATIVE = ["shm", "emulated"]
BARRIER = r"barrier\(int32, sum, count 1\)|barrier\(.*\)"


def race(comm: Communicator, how: str) -> list[str]:
    """Rank 0 is in a barrier, to which rank 1 does not come, when another of its threads calls."""
    group = comm.duplicate()
    group.all_reduce(np.ones(2))
    raised: list[str] = []

    def attempt(act: Any) -> None:
        try:
            act()
        except Poisoned as error:
            raised.append(str(error))

    if comm.rank == 0:
        first = threading.Thread(target=attempt, args=(group.barrier,))
        first.start()
        while group._endpoint.calls < 2:
            pass
        calls = {
            "call": lambda: group.all_reduce(np.ones(2)),
            "asynchronous": lambda: group.all_reduce(np.ones(2), async_op=True).wait(),
            "new": lambda: group.all_gather(np.ones(3)),
        }
        attempt(calls[how])
        first.join()
    comm.barrier()
    if comm.rank == 1:
        attempt(group.barrier)
    group.close()
    return raised


@pytest.mark.parametrize("engine", NATIVE)
@pytest.mark.parametrize("how", ["call", "asynchronous", "new"])
def test_threads_that_call_at_once_get_an_error_that_names_both_calls(how: str, engine: str) -> None:
    raised = spawn(race, 2, how, engine=engine, timeout_s=30)
    assert [len(texts) for texts in raised] == [2, 1]
    name = "all_gather" if how == "new" else "all_reduce"
    for text in [*raised[0], *raised[1]]:
        assert f"rank 0 called {name}(float64" in text, text
        assert "in the group of ranks 0, 1 while another of its threads (" in text, text
        assert ") was in barrier(" in text and "call 2: a group is for one thread at a time" in text, text
        assert "comm.duplicate()" in text, text


def many(comm: Communicator) -> tuple[int, list[str]]:
    """Two threads that call without a pause: one result at most is not the thread's own, in the call that fails."""
    group, wrong, raised = comm.duplicate(), [0], []

    def work(own: float) -> None:
        x = np.full(1, own)
        try:
            while True:
                wrong[0] += int(group.all_reduce(x)[0] != comm.size * own)
        except Poisoned as error:
            raised.append(str(error))

    threads = [threading.Thread(target=work, args=(own,)) for own in (1.0, 100.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    group.close()
    return wrong[0], raised


@pytest.mark.parametrize("engine", NATIVE)
def test_threads_that_race_end_with_an_error(engine: str) -> None:
    for _, raised in spawn(many, 2, engine=engine, timeout_s=30):
        assert len(raised) == 2


def one_after_the_other(comm: Communicator) -> None:
    """Threads that take turns by a lock of their own may share a group; a rank alone has no others to differ from."""
    lock = threading.Lock()
    alone = comm.split(comm.rank)
    assert alone is not None

    def work() -> None:
        for _ in range(200):
            alone.all_reduce(np.ones(1000))
            alone.all_reduce(np.ones(1000), async_op=True).wait()

    def in_turn(turn: int) -> None:
        for k in range(20):
            while True:
                with lock:
                    if made[0] % 2 == turn:
                        assert comm.all_reduce(float(k)) == comm.size * k
                        made[0] += 1
                        break

    made = [0]
    threads = [threading.Thread(target=act, args=args) for act, args in ((work, ()), (in_turn, (0,)), (in_turn, (1,)))]
    threads.append(threading.Thread(target=work))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert made == [40]


@pytest.mark.parametrize("engine", NATIVE)
def test_threads_may_share_a_group_in_turns(engine: str) -> None:
    spawn(one_after_the_other, 2, engine=engine, timeout_s=30)
