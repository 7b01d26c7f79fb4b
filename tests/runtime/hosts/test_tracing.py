"""Traces of ranks on hosts whose clocks are days apart: one time for all, and what went over the network."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ringtree.formats import chrome
from ringtree.ir.host_clocks import EARLY, host_clocks, hosts_of
from ringtree.ir.host_links import host_links
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
    assert (trace.end_s[send] > trace.start_s[send])[away].any()
    assert (trace.end_s[send] <= trace.end_s[wait])[away].all()
    assert set(trace.kind.tolist()) <= {int(kind) for kind in Event}


def late(comm: Communicator) -> Trace:
    """A message to a rank that does something else for long."""
    x = np.full(1000, comm.rank, np.float32)
    comm.broadcast(x.copy(), algorithm="flat")  # connects
    with comm.trace() as recording:
        if comm.rank:
            with comm.span("asleep"):
                time.sleep(1.0)
        comm.broadcast(x, algorithm="flat")
    return recording.trace


def test_a_message_arrives_before_it_is_taken(host_pools: HostPools, wire: str) -> None:
    """The bridge has it, and its time, long before the rank asks."""
    trace = host_pools((1, 1), wire).run(late)[0]
    send, wait = trace.messages()
    [message] = np.flatnonzero(trace.rank[send] == 0)
    asleep = trace.end_s[trace.kind == Event.COMPUTE].max()
    assert trace.end_s[send[message]] < asleep <= trace.end_s[wait[message]]


def in_place(comm: Communicator, path: str) -> None:
    x = np.ones(1 << 18, np.float32)
    comm.all_reduce(x, out=x, algorithm="ring")  # connects
    with comm.trace() as recording:
        comm.all_reduce(x, out=x, algorithm="ring")
    if comm.rank == 0:
        chrome.write(recording.trace, path)


def test_a_simulation_over_hosts_sends_the_same_messages(host_pools: HostPools, tmp_path: Path) -> None:
    measured, simulated = (str(tmp_path / f"{name}.json.gz") for name in ("measured", "simulated"))
    host_pools((1, 1, 2)).run(in_place, measured)
    words = "ring --hosts 1,1,2 --bytes 1M --cut --in-place --trace"
    for command in (["simulate", *words.split(), simulated], ["compare-trace", measured, simulated]):
        done = subprocess.run(
            [sys.executable, "-m", "ringtree.cli", *command], capture_output=True, text=True, check=True
        )
    assert "bytes per pair of ranks: equal (4 pairs, 6 MiB in all)" in done.stdout
    links = [[link[:4] for link in host_links(chrome.read(path))] for path in (measured, simulated)]
    assert links[0] == links[1]
    assert [ends[:2] for ends in links[0]] == [(0, 1), (1, 2), (2, 0)]


def test_bytes_between_hosts_are_those_that_the_engine_counts(host_pools: HostPools) -> None:
    given = host_pools((1, 1, 2)).run(traced)
    assert given[0][0].sent_nbytes().tolist() == np.stack([counted for _, counted in given], axis=1).tolist()
