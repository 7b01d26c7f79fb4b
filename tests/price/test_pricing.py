"""Prices of schedules: beside the simulator, and compressed beside written out."""

from dataclasses import replace
from statistics import median

import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.schedule import Block, Schedule, Shift, Transfers
from ringtree.price import Priced, quote, seconds
from ringtree.simulate import play
from ringtree.topology import cluster, direct, ring, switch, torus
from ringtree.transform import pipeline
from tests.effort import counted
from tests.topology.test_queues import ONE_LINK

WORK = {"message_s": 3e-7, "step_s": 1e-7, "copy_Bps": 40e9, "reduce_Bps": 15e9}
SHARED = {"switch": switch(8), "ring": ring(8), "torus": torus(2, 4), "cluster": cluster(2, 4, nics=2, **WORK)}
SIZES = (64, 1 << 20)


def ratios(topology, pieces):
    """price / simulate, for every algorithm."""
    for name, collective in pairs():
        schedule = pipeline(build(name, collective, 8), pieces)
        priced = Priced(schedule, topology)
        for nbytes in SIZES:
            yield priced.seconds(nbytes) / play(schedule, topology, nbytes).time_s, (name, collective, nbytes)


@pytest.mark.parametrize("pieces", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_as_simulated_where_no_messages_meet(pieces):
    topology = direct(8, **WORK)
    found = {what: ratio for ratio, what in ratios(topology, pieces)}
    assert median(found.values()) == pytest.approx(1, rel=0.001)
    assert {what: r for what, r in found.items() if not 0.85 < r < 1.3} == {}


@pytest.mark.parametrize(
    "topology", [pytest.param(t, id=n, marks=[] if n == "cluster" else pytest.mark.slow) for n, t in SHARED.items()]
)
def test_prices_are_near_the_simulation_where_messages_meet(topology):
    found = {what: ratio for ratio, what in ratios(topology, 1)}
    assert median(found.values()) == pytest.approx(1, rel=0.02)
    assert sum(0.85 < r < 1.15 for r in found.values()) > 0.85 * len(found)
    assert {what: r for what, r in found.items() if not 0.6 < r < 1.7} == {}


@pytest.mark.parametrize(
    ("name", "collective"),
    [("bine_tree", "all_reduce"), ("binary_tree", "all_reduce"), ("swing", "reduce_scatter"), ("flat", "scatter")],
)
def test_messages_of_a_host_wait_in_the_queue_of_a_link_that_serves_others_too(name, collective):
    schedule, topology = build(name, collective, 5), replace(ONE_LINK, fifo_between_hosts=True)
    assert seconds(schedule, topology, 60) == pytest.approx(play(schedule, topology, 60).time_s)


def test_messages_to_other_hosts_cost_more():
    ring, away = build("ring", "all_reduce", 8), cluster(2, 4, away_message_s=1e-3)
    assert seconds(ring, away, 1024) == pytest.approx(play(ring, away, 1024).time_s)
    assert seconds(ring, away, 1024) > 100 * seconds(ring, cluster(2, 4), 1024)
    topology = cluster(2, 4, nics=2, **WORK, away_message_s=1e-3)
    assert {what: ratio for ratio, what in ratios(topology, 1) if not 0.9 < ratio < 1.1} == {}


@pytest.mark.parametrize(
    ("ranks", "pieces"), [(7, 5), *(pytest.param(12, n, marks=pytest.mark.slow) for n in (1, 5, 40))]
)
@pytest.mark.parametrize(("name", "collective"), pairs())
def test_repeated_blocks_cost_as_much_as_written_out(name, collective, ranks, pieces):
    schedule = pipeline(build(name, collective, ranks), pieces)
    plain = replace(schedule, blocks=(Block(schedule.expand()),))
    priced, beside = (Priced(s, cluster(4, 3, nics=2, **WORK)) for s in (schedule, plain))
    for nbytes in (100, 1 << 22):
        assert priced.seconds(nbytes) == pytest.approx(beside.seconds(nbytes), rel=1e-9)


def test_peers_that_move_on():
    """All-gather by ever farther neighbours: the target moves by one each time."""
    n = 6
    rows = Transfers.of(range(n), [(r + 1) % n for r in range(n)], range(n))
    schedule = Schedule("far", "all_gather", n, n, (Block(rows, n - 1, Shift(target=1)),))
    plain = replace(schedule, blocks=(Block(schedule.expand()),))
    for topology in (ring(n), switch(n), cluster(2, 3)):
        assert seconds(schedule, topology, 1 << 20) == seconds(plain, topology, 1 << 20)


def test_a_ring_in_closed_form():
    """2(n-1)(α + βS/n)."""
    found = seconds(build("ring", "all_reduce", 8), switch(8, latency_s=2e-6, bandwidth_Bps=10e9), 8 << 20)
    assert found == pytest.approx(14 * (2e-6 + (1 << 20) / 10e9))


def test_a_hundred_thousand_ranks_are_priced_without_being_expanded():
    """Of one kind, and of hosts with 8 of them: 2(n-1) times the mean latency of a hop, when there are few bytes."""
    n = 100_000
    schedule, topology = build("ring", "all_reduce", n), cluster(n // 8, 8, nics=8)
    with counted() as effort:
        found = seconds(schedule, topology, 8)
    assert effort.calls < 5 * n  # of 2(n-1)n transfers
    assert found == pytest.approx(2 * (n - 1) * (7 * 1e-6 + 6e-6) / 8, rel=1e-3)


def test_a_quote_adds_up():
    found = quote(build("ring", "all_reduce", 8), cluster(2, 4, **WORK), 1 << 24)
    assert found.seconds == pytest.approx(found.latency_s + found.bandwidth_s + found.work_s)
    assert found.seconds == pytest.approx(sum(found.blocks_s))
    assert min(found.latency_s, found.bandwidth_s, found.work_s) > 0
    assert "nic" in found.busiest
    assert found.busiest_s == pytest.approx(14 * (1 << 21) / 25e9)


def test_mistakes():
    with pytest.raises(ValueError, match="is for 8 ranks; expected at most the 4 of switch"):
        seconds(build("ring", "all_reduce", 8), switch(4), 8)
    with pytest.raises(ValueError, match="-1 bytes; expected at least 0"):
        seconds(build("ring", "all_reduce", 4), switch(4), -1)
    broken = switch(4)
    broken = replace(broken, bandwidth_Bps=broken.bandwidth_Bps * [0, 1, 1, 1, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="no route from rank0 to rank1"):
        seconds(build("ring", "all_reduce", 4), broken, 8)


def test_nothing_to_do():
    assert seconds(build("ring", "all_reduce", 1), switch(1), 1 << 20) == 0
    assert quote(build("ring", "all_reduce", 1), switch(1), 1 << 20).busiest == "no link"
