"""Traces of ranks on hosts whose clocks are days apart: one time for all, and what went over the network."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.ir.host_clocks import EARLY, host_clocks, hosts_of
from ringtree.ir.trace import Event, Trace
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.hosts.conftest import HostPools, Layout, host_of
from tests.runtime.hosts.lab import CLOCK_APART_S

COUNT = 100_000
LONGEST_S = 10.0
"""Far longer than the calls here take, far shorter than the clocks are apart."""


def traced(comm: Communicator) -> tuple[Trace, list[int]]:
    """A trace of calls and messages; bytes from each rank by the engine's count."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.all_reduce(np.ones(COUNT, np.float32))  # connects
    with comm.trace() as recording:
        comm.reset_counters()  # from here on: the clocks were read by messages
        comm.all_reduce(np.ones(COUNT, np.float32), algorithm="ring")
        comm.barrier()
        with comm.span("own work"):
            comm.sendrecv(np.ones(1000), right, np.empty(1000), left)
        comm.all_reduce(np.ones(3, np.float32))
        counted = comm.counters()[:, 0]
    return recording.trace, counted.tolist()


@pytest.mark.parametrize("layout", [(1, 1), (1, 1, 2)], ids=str)
def test_hosts_with_other_clocks_have_one_time(host_pools: HostPools, wire: str, layout: Layout) -> None:
    given = host_pools(layout, wire).run(traced)
    trace = given[0][0]
    assert trace.makespan_s < LONGEST_S
    assert all(np.array_equal(other.start_s, trace.start_s) for other, _ in given)
    clocks = host_clocks(trace)
    assert list(clocks) == list(range(1, len(layout)))
    for host, clock in clocks.items():
        assert abs(clock.offset_s - host * CLOCK_APART_S) <= clock.error_s < 0.01  # as the lab has set it
    assert hosts_of(trace).tolist() == host_of(layout)


@pytest.mark.parametrize("layout", [(1, 1), (1, 1, 2)], ids=str)
def test_messages_between_hosts_are_under_way_until_they_arrive(host_pools: HostPools, layout: Layout) -> None:
    trace = host_pools(layout).run(traced)[0][0]
    send, wait = trace.messages()
    assert len(send) == np.sum(trace.kind == Event.SEND) == np.sum(trace.kind == Event.WAIT)
    assert (trace.end_s[wait] >= trace.start_s[send]).all(), trace.facts.get(EARLY)
    hosts = hosts_of(trace)
    away = hosts[trace.rank[send]] != hosts[trace.peer[send]]
    assert away.any()
    assert np.array_equal(trace.end_s[send][away], trace.end_s[wait][away])


def test_bytes_between_hosts_are_those_that_the_engine_counts(host_pools: HostPools) -> None:
    given = host_pools((1, 1, 2)).run(traced)
    assert given[0][0].sent_nbytes().tolist() == np.stack([counted for _, counted in given], axis=1).tolist()
