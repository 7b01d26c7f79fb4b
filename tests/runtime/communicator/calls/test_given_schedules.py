"""Schedules made anew for every call pile up no more than plans do, and none is taken for another."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree import spawn
from ringtree.algorithms import build
from ringtree.ir.schedule import Schedule
from ringtree.runtime.communicator.calls import plans
from ringtree.runtime.communicator.communicator import Communicator
from tests.way_in import passed


def test_the_last_used_are_kept_each_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "KEPT", 2)
    one, alike, other = (build("ring", "all_reduce", n) for n in (2, 2, 3))
    known = plans.Given[int]()
    assert [known.keep(one, 1), known.keep(alike, 2)] == [1, 2]
    assert one == alike and (known.find(one), known.find(alike)) == (1, 2)
    assert known.find(one) == 1
    known.keep(other, 3)
    assert len(known) == 2 and (known.find(one), known.find(alike), known.find(other)) == (1, None, 3)


def ever_new(comm: Communicator) -> tuple[int, ...]:
    x = np.arange(6) + comm.rank
    for k in range(30):
        root = k % comm.size  # a schedule of before may have lain where this one lies
        assert (
            comm.broadcast(x * 1, root, algorithm=build("flat", "broadcast", comm.size, root)) == x - comm.rank + root
        ).all()
        assert (comm.execute(build("ring", "all_reduce", comm.size), x) == comm.size * x + 1 - 2 * comm.rank).all()
    calls = comm._calls
    return len(calls.plans), len(calls.selection._parts), len(calls.selection._proved)


def test_ever_new_schedules_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "KEPT", 4)
    assert spawn(ever_new, 2, threads=True, timeout_s=60) == [(4, 4, 4)] * 2


def given_again(comm: Communicator) -> tuple[bool, ...]:
    """Whether calls with a schedule take the slow path once they were made before: with the same one, another, none."""
    x, y = np.arange(6) + comm.rank, np.empty(6, np.int64)
    ring, other = (build(name, "all_reduce", comm.size) for name in ("ring", "two_shot"))

    def slow(algorithm: Schedule | str | None) -> bool:
        names = passed(lambda: comm.all_reduce(x, out=y, algorithm=algorithm))
        assert (y == comm.size * np.arange(6) + 1).all()
        return "perform" in names

    return slow(ring), slow(other), slow("ring"), slow(None), slow(ring)


def test_a_schedule_that_was_given_before_takes_the_fast_path() -> None:
    assert spawn(given_again, 2, threads=True, timeout_s=60) == [(False,) * 5] * 2
