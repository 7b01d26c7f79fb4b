"""Links that serve messages between hosts first come, first served: small cases worked out by hand.

Links between hosts have 1 byte a second and no latency, so that bytes are seconds; inside a host all is free.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.simulate import Conditions, Job, play
from ringtree.topology import Topology, on_hosts
from tests.simulate.test_sharing import arrivals, messages


def hosts(*host_of: int, **more: float) -> Topology:
    return on_hosts(host_of, latency_s=0, bandwidth_Bps=1, local_latency_s=0, fifo_between_hosts=True, **more)


def near(expected: dict[tuple[int, int, int], float]) -> dict[tuple[int, int, int], float]:
    return pytest.approx(expected, abs=1e-6)


def test_messages_that_meet_go_one_after_the_other() -> None:
    two = messages(4, (0, 2), (1, 3))
    assert arrivals(play(two, hosts(0, 0, 1, 1), 10)) == near({(0, 2, 0): 10, (1, 3, 0): 20})
    late = Conditions(delay_s={0: 1})
    assert arrivals(play(two, hosts(0, 0, 1, 1), 10, conditions=late)) == near({(1, 3, 0): 10, (0, 2, 0): 20})


def test_other_topologies_share() -> None:
    fair = on_hosts((0, 0, 1, 1), latency_s=0, bandwidth_Bps=1, local_latency_s=0)
    assert arrivals(play(messages(4, (0, 2), (1, 3)), fair, 10)) == near({(0, 2, 0): 20, (1, 3, 0): 20})


def test_a_receivers_link_is_taken_when_a_message_reaches_it_not_when_it_is_sent() -> None:
    """Rank 0's second message leaves its own host after the first one; until then the receiver's link serves others."""
    sent = messages(4, (0, 2), (0, 3), (1, 3))
    found = arrivals(play(sent, hosts(0, 1, 2, 3), 10, conditions=Conditions(delay_s={1: 5})))
    assert found == near({(0, 2, 0): 10, (1, 3, 0): 15, (0, 3, 0): 25})


def test_a_message_does_not_wait_for_one_that_waits_at_another_link() -> None:
    """Rank 0's first message waits for rank 2's link, which is busy; its second goes on."""
    found = arrivals(play(messages(4, (1, 2), (0, 2), (0, 3)), hosts(0, 1, 2, 3), 10))
    assert found[0, 3, 0] == pytest.approx(20) and sorted(found.values()) == pytest.approx([10, 20, 20])


def test_inside_a_host_links_are_shared_as_ever() -> None:
    there = on_hosts(
        (0, 0, 0, 1), latency_s=0, bandwidth_Bps=1, local_latency_s=0, local_bandwidth_Bps=2, fifo_between_hosts=True
    )
    found = arrivals(play(messages(4, (0, 2), (1, 2)), there, 10))
    assert found == near({(0, 2, 0): 10, (1, 2, 0): 10})


ONE_LINK = Topology.of(
    "one link a rank",
    3,
    ("r0", "r1", "r2", "s0", "s1", "network"),
    [0, 3, 1, 3, 2, 4, 3, 5, 4, 5],
    [3, 0, 3, 1, 4, 2, 5, 3, 5, 4],
    0,
    1,
    [0, 0, 1],
)


@pytest.mark.parametrize("conditions", [Conditions(), Conditions(jitter=1e-9)], ids=["all at once", "by events"])
@pytest.mark.parametrize(
    ("sends", "expected"),
    [
        ([(0, 1), (0, 2)], {(0, 1, 0): 10, (0, 2, 0): 20}),
        ([(0, 2), (0, 1)], {(0, 2, 0): 10, (0, 1, 0): 20}),
        ([(0, 1), (2, 1)], {(0, 1, 0): 10, (2, 1, 0): 20}),
        ([(0, 1), (2, 0)], {(0, 1, 0): 10, (2, 0, 0): 10}),
    ],
    ids=str,
)
def test_a_link_serves_messages_of_the_host_and_of_others_in_one_queue(
    sends: list[tuple[int, int]], expected: dict[tuple[int, int, int], float], conditions: Conditions
) -> None:
    """A rank reaches the others of its host and the network by one link, which has its bandwidth once."""
    there = replace(ONE_LINK, fifo_between_hosts=True)
    found = play(messages(3, *sends), there, 10, conditions=conditions)
    assert arrivals(found) == near(expected)
    np.testing.assert_allclose(found.link_busy_s, found.link_nbytes / there.bandwidth_Bps, atol=1e-6)


def test_jobs_wait_in_the_same_queues() -> None:
    jobs = [Job(messages(4, (0, 2)), 10), Job(messages(4, (1, 3)), 10)]
    assert sorted(arrivals(play(jobs, hosts(0, 0, 1, 1))).values()) == pytest.approx([10, 20])


@pytest.mark.parametrize("name", ["ring", "double_tree", "torus", "two_shot"])
def test_a_link_is_busy_for_its_bytes_and_no_collective_is_faster(name: str) -> None:
    topology = hosts(0, 0, 1, 1, 2, 2)
    found = play(build(name, "all_reduce", 6), topology, 6000)
    np.testing.assert_allclose(found.link_busy_s, found.link_nbytes / topology.bandwidth_Bps, atol=1e-9)
    assert found.time_s >= found.link_busy_s.max() > 0


def test_messages_without_bytes_pass() -> None:
    two = [(0, 2), (0, 2)], [(1, 3)]
    jobs = [Job(messages(4, *sent), nbytes) for sent, nbytes in zip(two, (10, 0), strict=True)]
    found = arrivals(play(jobs, hosts(0, 0, 1, 1), conditions=Conditions(delay_s={1: 5})))
    assert found[1, 3, 1] == pytest.approx(5)
