"""The vectorised player gives the times of the event player, event by event, or reports that it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.algorithms import build
from ringtree.algorithms.registry import pairs
from ringtree.ir.collective import collective
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Schedule
from ringtree.ir.trace import COLUMNS, Trace
from ringtree.simulate import Conditions, Job, Simulation, levels, play
from ringtree.simulate.code import of_job
from ringtree.simulate.play import play_events
from ringtree.topology import Topology
from ringtree.topology.shapes import cluster, direct, on_hosts, switch, torus
from tests.simulate.test_sharing import arrivals, messages

COSTS = {"message_s": 3e-7, "step_s": 1e-7, "copy_Bps": 9e9, "reduce_Bps": 5e9}
QUEUES = {"latency_s": 3e-5, "fifo_between_hosts": True, **COSTS}
LATE = Conditions(delay_s={1: 3e-6}, slowdown={0: 1.7})


def machines(ranks: int) -> list[Topology]:
    shapes = [direct(ranks, latency_s=2e-6, bandwidth_Bps=7e9, **COSTS), switch(ranks, latency_s=2e-6, **COSTS)]
    if ranks % 4 == 0:
        shapes.append(cluster(2, ranks // 2, **COSTS))
        shapes.append(torus(4, ranks // 4, latency_s=1e-6, **COSTS))
        for bandwidth_Bps in (1e9, 1e12):
            shapes.append(on_hosts([r % 2 for r in range(ranks)], bandwidth_Bps=bandwidth_Bps, **QUEUES))
    return shapes


def ordered(trace: Trace) -> Trace:
    return trace.take(np.lexsort((trace.peer, trace.kind, trace.start_s.round(13), trace.end_s.round(13), trace.rank)))


def assert_same(got: Simulation, expected: Simulation) -> None:
    """Exact in counts, and within rounding in times."""
    one, two = ordered(got.trace), ordered(expected.trace)
    assert len(one) == len(two) and one.calls == two.calls and one.facts == two.facts
    for name in COLUMNS:
        if name.endswith("_s"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9, atol=1e-18, err_msg=name)
        else:
            assert np.array_equal(getattr(one, name), getattr(two, name)), name
    np.testing.assert_allclose(got.time_s, expected.time_s, rtol=1e-9)
    np.testing.assert_allclose(got.link_busy_s, expected.link_busy_s, rtol=1e-9, atol=1e-15)
    assert np.array_equal(got.link_nbytes, expected.link_nbytes)


def played(job: Job, topology: Topology, conditions: Conditions) -> Simulation | None:
    code = of_job(job)
    return code and levels.play(job, code, topology, conditions)


def compared(schedule: Schedule, nbytes: int, topology: Topology, conditions: Conditions) -> bool:
    """Whether there was an answer."""
    got = played(Job(schedule, nbytes, 1e-6), topology, conditions)
    if got is not None:
        assert_same(got, play_events([Job(schedule, nbytes, 1e-6)], [None], topology, conditions))
    return got is not None


FOR_POWERS = ("halving_doubling", "recursive_doubling", "swing", "bine_tree", "pat")
"""Algorithms that build powers of two of ranks otherwise."""


@pytest.mark.parametrize(
    ("name", "what", "ranks"),
    [
        *((name, what, (4, 5) if name in ("ring", *FOR_POWERS) else (5,)) for name, what in pairs()),
        *(pytest.param(name, what, range(2, 13), marks=pytest.mark.slow) for name, what in pairs()),
    ],
    ids=str,
)
def test_every_algorithm_takes_the_time_of_the_events(name: str, what: str, ranks: Sequence[int]) -> None:
    for n in ranks:
        schedule = build(name, what, n, n - 1 if collective(what).rooted else None)
        answers = [compared(schedule, 100_003, t, c) for t in machines(n) for c in (Conditions(), LATE)]
        assert answers[0], f"{name} {what} over {n} ranks: each has links of its own, and yet messages met"


def test_programs_are_played_as_the_schedule_they_were_lowered_from() -> None:
    schedule, topology = build("two_shot", "all_reduce", 5), direct(5, **COSTS)
    one = played(Job(schedule, 4096), topology, Conditions())
    two = played(Job(lower(schedule), 4096), topology, Conditions())
    assert one and two
    assert_same(one, two)


def test_a_start_in_whole_seconds_keeps_the_parts_of_seconds_after_it() -> None:
    ring, topology = build("ring", "all_reduce", 4), direct(4, **COSTS)
    one, two = (played(Job(ring, 1 << 20, start_s), topology, LATE) for start_s in (0, 0.0))
    assert one and two and one.time_s == two.time_s
    assert_same(one, two)


def test_messages_that_meet_on_a_link_are_left_to_the_event_player() -> None:
    gather = Job(build("flat", "gather", 4, 0), 1 << 20)
    assert played(gather, direct(4), Conditions()) is not None
    assert played(gather, switch(4), Conditions()) is None
    assert played(gather, direct(4), Conditions(jitter=0.1)) is None
    apart = on_hosts(range(4), **QUEUES)
    slow = Conditions(links={(apart.node("nic3"), apart.node("network")): 0.5})
    ring = Job(build("ring", "all_reduce", 4), 1 << 20)
    assert played(ring, apart, Conditions()) is not None
    assert played(ring, apart, slow) is None


def into(topology: Topology, hosts: Sequence[int], factor: float) -> Conditions:
    """The links into these hosts at that part of their bandwidth."""
    network = topology.node("network")
    return Conditions(links={(network, topology.node(f"nic{h}")): factor for h in hosts})


def test_the_next_message_does_not_wait_for_the_link_of_one_receiver() -> None:
    """Four messages of 10 s each leave one after the other, and each takes 40 s at its receiver."""
    apart = on_hosts(range(5), latency_s=0, bandwidth_Bps=1, local_latency_s=0, fifo_between_hosts=True)
    scatter = Job(build("flat", "scatter", 5, 0), 50)
    slow = into(apart, range(1, 5), 0.25)
    assert played(scatter, apart, Conditions()) is not None
    assert played(scatter, apart, slow) is None
    assert play([scatter], apart, conditions=slow).time_s == pytest.approx(3 * 10 + 40, abs=1e-6)
    ring = Job(build("ring", "all_reduce", 5), 50)
    assert played(ring, apart, into(apart, range(5), 0.25)) is not None, "a rank of a ring has one receiver"


def test_a_message_without_bytes_does_not_wait_for_those_before_it() -> None:
    apart = on_hosts(range(3), latency_s=0, bandwidth_Bps=1, local_latency_s=0, fifo_between_hosts=True)
    sent = Job(messages(3, (0, 1, 1), (0, 2, 0), chunks=2), 1)
    assert played(sent, apart, Conditions()) is None
    assert arrivals(play([sent], apart)) == pytest.approx({(0, 1, 0): 1, (0, 2, 0): 0}, abs=1e-6)


@pytest.mark.parametrize("host_of", [(0, 1, 2), (0, 0, 1, 1), (0, 1, 1, 2, 2)], ids=str)
@given(
    st.sampled_from(["flat scatter", "flat broadcast", "bine_tree broadcast", "ring all_reduce", "flat gather"]),
    st.integers(1, 40),
    st.sets(st.integers(0, 29)),
    st.sampled_from([0.25, 1.0, 4.0]),
)
def test_whatever_links_of_hosts_are_slow_the_times_are_the_events(
    host_of: Sequence[int], what: str, nbytes: int, slowed: set[int], local_Bps: float
) -> None:
    topology = on_hosts(host_of, latency_s=1, bandwidth_Bps=1, local_bandwidth_Bps=local_Bps, fifo_between_hosts=True)
    factors = [0.25 if link in slowed else 1.0 for link in range(topology.links)]
    name, called = what.split()
    schedule = build(name, called, len(host_of), 0 if collective(called).rooted else None)
    compared(schedule, nbytes, replace(topology, bandwidth_Bps=topology.bandwidth_Bps * factors), Conditions())


@pytest.mark.parametrize("n", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_thousand_ranks_have_all_their_events(n: int) -> None:
    """2 million messages, each with a reduction or copy and a wait; the closed form is 2 (n-1) hops of a chunk."""
    topology = switch(n, latency_s=2e-6, bandwidth_Bps=25e9)
    found = played(Job(build("ring", "all_reduce", n), n * 1000), topology, Conditions())
    assert found and len(found.trace) == 6 * n * (n - 1) + n
    assert found.time_s == pytest.approx(2 * (n - 1) * (2e-6 + 1000 / 25e9))
