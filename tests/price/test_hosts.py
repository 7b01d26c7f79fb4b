"""Hosts as a place: memory inside, a network between, and what a core does for each message."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.price import Hosts, SharedMemory, seconds
from ringtree.price.hosts import WIRE_MESSAGE_S, remote_ends
from ringtree.topology import cluster, on_hosts

MEMORY = SharedMemory(cores=8, slots=8, slot_bytes=1 << 17)
SIX = Hosts((0, 0, 1, 1, 2, 2), MEMORY, 30e-6, 235e6)


def test_equal_hosts_in_order_are_a_cluster() -> None:
    costs = {"latency_s": 30e-6, "bandwidth_Bps": 1e9, "local_latency_s": 1e-6, "local_bandwidth_Bps": 8e9}
    here, there = on_hosts([0, 0, 1, 1, 2, 2], **costs), cluster(3, 2, **costs)
    assert here.nodes == there.nodes
    for column in ("source", "target", "latency_s", "bandwidth_Bps", "hosts"):
        assert np.array_equal(getattr(here, column), getattr(there, column)), column


@pytest.mark.parametrize(("host_of", "each"), [((0, 0, 1, 1), 2), ((3, 3, 3), 3), ((0, 1, 0, 1), 0), ((0, 0, 1), 0)])
def test_ranks_of_each_host_where_they_are_alike(host_of: tuple[int, ...], each: int) -> None:
    assert Hosts(host_of, MEMORY).each() == each


def test_a_long_ring_takes_as_long_as_the_narrowest_link_needs() -> None:
    nbytes = 1 << 26
    least_s = 2 * 5 / 6 * nbytes / 235e6
    assert least_s < seconds(build("ring", "all_reduce", 6), SIX, nbytes) < 1.2 * least_s


def test_a_slower_network_takes_longer_and_memory_alone_is_faster() -> None:
    ring = build("ring", "all_reduce", 6)
    slower = Hosts(SIX.host_of, MEMORY, 1e-3, 235e6)
    alone = Hosts((0,) * 6, MEMORY)
    for nbytes in (0, 1 << 10, 1 << 20):
        assert seconds(ring, alone, nbytes) < seconds(ring, SIX, nbytes) < seconds(ring, slower, nbytes)


def test_each_message_over_the_network_costs_its_ranks_core() -> None:
    """one_shot over six: four peers elsewhere, a message to each and from each; ranks that take turns wait for more."""
    one_shot = build("one_shot", "all_reduce", 6)
    turns = Hosts(SIX.host_of, MEMORY, 30e-6, 235e6, turns=3.0)
    links_s = seconds(one_shot, SIX.topology(0), 0)
    assert seconds(one_shot, SIX, 0) == pytest.approx(links_s + 8 * WIRE_MESSAGE_S)
    assert seconds(one_shot, turns, 0) >= links_s + 3 * 8 * WIRE_MESSAGE_S


def test_each_window_waits_for_the_latency_where_all_wait_for_all() -> None:
    ring, broadcast = build("ring", "all_reduce", 6), build("chain", "broadcast", 6, 0)
    slower = Hosts(SIX.host_of, MEMORY, 1e-3, 235e6)
    nbytes = 16 * 6 * MEMORY.slot_bytes
    assert SIX.windows(ring, nbytes) == 16 and SIX.windows(ring, 8) == 1
    apart_s = seconds(ring, slower, nbytes) - seconds(ring, SIX, nbytes)
    assert apart_s >= 15 * (seconds(ring, slower, 0) - seconds(ring, SIX, 0))
    chain_s = seconds(broadcast, slower, nbytes) - seconds(broadcast, SIX, nbytes)
    assert chain_s < 2 * (seconds(broadcast, slower, 0) - seconds(broadcast, SIX, 0))


@pytest.mark.parametrize("name", ["ring", "double_tree", "chain", "two_shot"])
def test_messages_over_the_network_are_counted_without_writing_a_schedule_out(name: str) -> None:
    schedule = build(name, "all_gather" if name == "two_shot" else "broadcast" if name == "chain" else "all_reduce", 6)
    rows, host = schedule.expand(), np.array(SIX.host_of)
    pairs = {(k, s, t) for k, s, t in zip(rows.round, rows.source, rows.target, strict=True) if host[s] != host[t]}
    expected = [sum(rank in pair[1:] for pair in pairs) for rank in range(6)]
    assert remote_ends(schedule, SIX.host_of).tolist() == expected and sum(expected) > 0


def test_a_ring_over_very_many_ranks_is_priced() -> None:
    ranks = 20_000  # 800 million transfers
    time_s = seconds(build("ring", "all_reduce", ranks), Hosts(tuple(r // 8 for r in range(ranks)), MEMORY), 8)
    assert time_s > 2 * (ranks - 1) / 8 * 30e-6


def test_no_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="no ranks"):
        on_hosts([])
