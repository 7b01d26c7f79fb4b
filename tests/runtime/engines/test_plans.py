"""Plans that the engine forgets on request."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ringtree import spawn
from ringtree._native import Group
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from ringtree.runtime.types import Dtype
from tests.runtime.engines.native_world import one_shot, prepare, run, two_shot, values, world


def forgotten(comm: Communicator) -> None:
    endpoint = comm._endpoint
    x, out = np.full(100, comm.rank + 1.0, np.float32), np.empty(100, np.float32)
    signature = (1, "f", int(Dtype.FLOAT32), "sum", -1, 100, 100)
    plan = prepare(endpoint, one_shot(comm.rank, comm.size), 100, window=100)
    other = prepare(endpoint, one_shot(comm.rank, comm.size), 50, window=50)
    endpoint.remember(*signature, plan)
    at = (1, int(Dtype.FLOAT32), "sum", -1, x.ctypes.data, 100, out.ctypes.data, 100)
    assert endpoint.call(1, x, out, "sum", -1)
    assert endpoint.call_at(*at) and endpoint.wait(endpoint.start_at(*at), -1.0)
    endpoint.forget(plan)
    assert not endpoint.call(1, x, out, "sum", -1)
    assert not endpoint.call_at(*at) and not endpoint.start_at(*at)
    for act in (lambda: run(endpoint, plan, x, out), lambda: endpoint.start(plan, 0, 0), lambda: endpoint.forget(plan)):
        with pytest.raises(ValueError, match=f"plan {plan} was forgotten"):
            act()
    with pytest.raises(ValueError, match="no plan 99"):
        endpoint.forget(99)
    assert prepare(endpoint, one_shot(comm.rank, comm.size), 100, window=100) not in (plan, other)
    assert (run(endpoint, other, x, out)[:50] == comm.size * (comm.size + 1) / 2).all()


def queued(comm: Communicator) -> None:
    """A plan that is forgotten while its calls wait in the queue serves them still."""
    endpoint = comm._endpoint
    outs = [np.empty(5000, np.float32) for _ in range(20)]
    x = np.full(5000, comm.rank + 1.0, np.float32)
    ticket = 0
    for out in outs:
        plan = prepare(endpoint, one_shot(comm.rank, comm.size), 5000, window=1000)
        ticket = endpoint.start(plan, x.ctypes.data, out.ctypes.data)
        endpoint.forget(plan)
    assert endpoint.wait(ticket, 20.0)
    assert all((out == comm.size * (comm.size + 1) / 2).all() for out in outs)


def taught_anew(comm: Communicator) -> None:
    """A call that another plan serves by now is none of the forgotten one's."""
    endpoint = comm._endpoint
    x, out = np.full(100, comm.rank + 1.0, np.float32), np.empty(100, np.float32)
    signature = (1, "f", int(Dtype.FLOAT32), "sum", -1, 100, 100)
    first, second = (prepare(endpoint, one_shot(comm.rank, comm.size), 100, window=100) for _ in range(2))
    endpoint.remember(*signature, first)
    endpoint.remember(*signature, second)
    endpoint.forget(first)
    assert endpoint.call(1, x, out, "sum", -1)
    endpoint.forget(second)
    assert not endpoint.call(1, x, out, "sum", -1)


@pytest.mark.parametrize("act", [forgotten, queued, taught_anew])
def test_a_plan_is_forgotten(engine: str, act: object) -> None:
    spawn(act, 2, engine=engine, threads=in_threads(engine), timeout_s=60)  # type: ignore[arg-type]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_forgotten_plans_cost_nothing() -> None:
    def rank(group: Group, me: int) -> int:
        grown = []
        for _ in range(4):
            for _ in range(1000):
                plan = prepare(group, two_shot(me, 2), 1000)
                group.remember(1, "f", int(Dtype.FLOAT32), "sum", -1, 1000, 1000, plan)
                group.forget(plan)
            grown.append(resident_bytes())
        return min(after - before for before, after in pairwise(grown))  # a round may meet a large page of the system's

    grown = values(world(2, rank))
    assert max(grown) < 70_000
