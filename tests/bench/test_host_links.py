"""The rounds in which hosts are measured, and what ranks of one host send each other by the same code."""

from __future__ import annotations

import json
from itertools import combinations
from math import inf
from statistics import median

import pytest

import ringtree
from ringtree.bench.host_links import all_gather_json, gather_json, measure_host_links, pairings
from ringtree.bench.pair import MeasuredPair, PairEffort, answer, measure

MANY = PairEffort(trips=20, warmup=2, sizes=(1 << 10, 1 << 12), repetitions=3)


@pytest.mark.parametrize("hosts", range(1, 34))
def test_every_two_hosts_meet_once_and_no_host_twice_in_a_round(hosts: int) -> None:
    rounds = pairings(hosts)
    assert sorted(pair for pairs in rounds for pair in pairs) == list(combinations(range(hosts), 2))
    assert all(len({host for pair in pairs for host in pair}) == 2 * len(pairs) for pairs in rounds)
    assert len(rounds) <= max(hosts - 1 + hosts % 2, 0)


def pair_of(comm: ringtree.Communicator, effort: PairEffort) -> MeasuredPair | None:
    if comm.rank == 0:
        return measure(comm, 1, effort)
    answer(comm, 0, effort)
    return None


def test_a_pair_is_measured_both_ways() -> None:
    found = ringtree.spawn(lambda comm: pair_of(comm, MANY), 2)[0]
    assert found is not None and len(found.trips_s) == 20 and found.latency_s >= found.least_latency_s > 0
    assert {nbytes: tuple(map(len, rates)) for nbytes, rates in found.rates_Bps.items()} == {1024: (3, 3), 4096: (3, 3)}
    assert found.longest_Bps() == tuple(map(median, found.rates_Bps[4096]))


def test_a_pair_without_time_sends_the_shortest_messages() -> None:
    effort = PairEffort(trips=1000, warmup=1, sizes=(1 << 10, 1 << 24), repetitions=1, seconds=1e-9)
    found = ringtree.spawn(lambda comm: pair_of(comm, effort), 2)[0]
    assert found is not None and list(found.rates_Bps) == [1024]


def test_ranks_of_one_host_have_no_links() -> None:
    assert ringtree.spawn(lambda comm: measure_host_links(comm, inf), 2) == [None, None]


def gathered(comm: ringtree.Communicator) -> str:
    value = {"rank": comm.rank, "words": "é" * comm.rank, "none": None}
    return json.dumps([gather_json(comm, value), all_gather_json(comm, value)])


def test_values_are_gathered_as_json() -> None:
    every = [{"rank": rank, "words": "é" * rank, "none": None} for rank in range(3)]
    found = [json.loads(text) for text in ringtree.spawn(gathered, 3)]
    assert found == [[every if rank == 0 else None, every] for rank in range(3)]
