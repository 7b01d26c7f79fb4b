"""Schedules made anew for every call pile up no more than plans do, and none is taken for another."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree import spawn
from ringtree.algorithms import build
from ringtree.runtime.communicator.calls import plans
from ringtree.runtime.communicator.communicator import Communicator


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
    return len(calls.plans), len(calls._parts), len(calls._proved)


def test_ever_new_schedules_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "KEPT", 4)
    assert spawn(ever_new, 2, threads=True, timeout_s=60) == [(4, 4, 4)] * 2
