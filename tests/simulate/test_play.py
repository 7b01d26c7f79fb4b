"""Every simulation ends, moves the schedule's bytes, and takes no less time than the bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.algorithms import build, pairs
from ringtree.ir.lower import lower
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.trace import Event
from ringtree.simulate import Conditions, Job, network, play
from ringtree.topology import cluster, direct, ring, switch, torus

COSTS = {"message_s": 3e-7, "step_s": 1e-7, "copy_Bps": 40e9, "reduce_Bps": 15e9}


def moved(schedule, nbytes):
    """Bytes each rank sends, as the schedule counts them; all chunks are alike."""
    return schedule.chunks_sent() * (nbytes // schedule.chunks)


@pytest.mark.parametrize("ranks", [(1, 3, 4, 6), pytest.param((2, 5, 7, 8, 9), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_every_algorithm_plays_and_sends_its_bytes(algorithm, collective, ranks):
    for n in ranks:
        schedule = build(algorithm, collective, n)
        nbytes = 16 * schedule.chunks
        for topology in (direct(n, **COSTS), cluster(3, n // 3) if n % 3 == 0 else switch(n)):
            simulation = play(schedule, topology, nbytes)
            trace = simulation.trace
            assert trace.sent_nbytes().sum(axis=1).tolist() == moved(schedule, nbytes).tolist()
            sends, waits = trace.messages()
            assert len(sends) == len(waits) == (trace.kind == Event.SEND).sum() == (trace.kind == Event.WAIT).sum()
            assert np.all(trace.end_s[waits] >= trace.end_s[sends])
            assert np.array_equal(trace.nbytes[sends], trace.nbytes[waits])


def test_uneven_chunks_are_cut_as_calls_cut_elements():
    """13 bytes in 4 blocks: 3, 3, 3 and 4."""
    trace = play(build("ring", "all_reduce", 4), direct(4), 13).trace
    by_chunk = {int(c): int(b) for c, b in zip(trace.chunk, trace.nbytes, strict=True)}
    assert by_chunk == {0: 3, 1: 3, 2: 3, 3: 4}


def test_a_schedule_and_its_programs_are_the_same():
    schedule = build("halving_doubling", "all_reduce", 6)
    assert same(play(schedule, cluster(2, 3), 4096), play(lower(schedule), cluster(2, 3), 4096))


def same(a, b):
    columns = ("rank", "channel", "call", "kind", "start_s", "end_s", "nbytes", "peer", "chunk")
    traces = all(np.array_equal(getattr(a.trace, c), getattr(b.trace, c)) for c in columns)
    return traces and np.array_equal(a.link_busy_s, b.link_busy_s) and a.time_s == b.time_s


def test_the_same_seed_gives_the_same_bits_and_another_one_others():
    def jittered(seed):
        jobs = [Job(build("swing", "all_reduce", 8), 4096), Job(build("ring", "all_reduce", 8), 4096, 1e-6)]
        return play(jobs, cluster(2, 4), conditions=Conditions(jitter=0.5, seed=seed))

    assert same(jittered(1), jittered(1))
    assert not same(jittered(1), jittered(2))


def test_jitter_is_on_latencies_alone_and_exponential():
    """Messages at once over links of their own, of one second and bandwidth without end."""
    n = 60
    trace = play(
        build("pairwise", "all_to_all", n),
        direct(n, latency_s=1, bandwidth_Bps=np.inf),
        n * n,
        conditions=Conditions(jitter=0.5),
    ).trace
    sends = trace.take(trace.kind == Event.SEND)
    extra = (sends.end_s - sends.start_s - 1) / 0.5
    assert extra.min() >= -1e-9
    assert extra.mean() == pytest.approx(1, abs=0.1)
    assert (extra > 1).mean() == pytest.approx(np.exp(-1), abs=0.03)


def test_waits_and_copies_of_a_rank_follow_one_another():
    """A rank has one thread: it does one thing at a time."""
    trace = play(build("ring", "all_reduce", 5), cluster(5, 1, **COSTS), 5 << 10).trace
    for rank in range(5):
        mine = trace.take((trace.rank == rank) & (trace.kind != Event.SEND))
        assert np.all(mine.start_s[1:] >= mine.end_s[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["swing", "two_shot", "double_tree"])
def test_rates_are_the_same_by_either_method(algorithm, monkeypatch):
    """80 ranks behind 10 NICs: found only for the flows that may have changed, or for all there are."""
    found = []
    for most in (10**9, 0):
        monkeypatch.setattr(network, "MANY", most)
        found.append(play(build(algorithm, "all_reduce", 80), cluster(10, 8), 80_000).trace)
    np.testing.assert_allclose(found[0].end_s, found[1].end_s, rtol=1e-9)


TOPOLOGIES = (direct(6, **COSTS), switch(6), ring(6), torus(2, 3), cluster(2, 3), cluster(3, 2, nics=2, **COSTS))


@given(st.sampled_from(pairs()), st.sampled_from(TOPOLOGIES), st.integers(0, 10**6), st.data())
def test_no_message_and_no_link_is_faster_than_it_can_be(which, topology, nbytes, data):
    link = data.draw(st.integers(0, topology.links - 1))
    factor = data.draw(st.sampled_from([0.1, 1.0, 3.0]))
    conditions = Conditions(links={(int(topology.source[link]), int(topology.target[link])): factor})
    actual = conditions.applied(topology)
    simulation = play(build(*which, 6), topology, nbytes, conditions=conditions)
    least = simulation.link_nbytes / actual.bandwidth_Bps
    assert np.all(simulation.link_busy_s >= least * (1 - 1e-9))
    assert np.all(simulation.link_busy_s <= simulation.time_s * (1 + 1e-9))
    sends = simulation.trace.take(simulation.trace.kind == Event.SEND)
    for rank, peer, took, size in zip(sends.rank, sends.peer, sends.end_s - sends.start_s, sends.nbytes, strict=True):
        path = list(topology.route(int(rank), int(peer)))
        alone = actual.latency_s[path].sum() + size / actual.bandwidth_Bps[path].min()
        assert took >= alone * (1 - 1e-9)


@given(st.sampled_from(pairs()), st.integers(0, 29), st.sampled_from([0.5, 0.9]), st.booleans())
def test_without_sharing_nothing_gets_faster_when_a_link_slows(which, link, factor, jitter):
    """Over links of their own all times are sums and maxima of the parts, which grow with them. (Where links are shared
    that need not hold: test_where_links_are_shared_a_slower_link_may_help.)"""
    topology, schedule = TOPOLOGIES[0], build(*which, 6)
    ends = int(topology.source[link]), int(topology.target[link])
    before = play(schedule, topology, 60_000, conditions=Conditions(jitter=0.3 * jitter))
    after = play(schedule, topology, 60_000, conditions=Conditions(jitter=0.3 * jitter, links={ends: factor}))
    assert np.all(after.trace.end_s >= before.trace.end_s * (1 - 1e-12))


def test_threads_wait_for_one_another_and_for_their_own_messages():
    """Rank 0's second thread copies when the first has (10 s); then rank 1's threads each get one on their channel."""
    data = Operand(Space.INPUT, 0, 0)
    slots = [data._replace(space=Space.SLOT, index=k) for k in range(2)]
    sender = tuple(
        (
            Instruction(Kind.COPY, (slots[k],), (data,), after=((0, 0),) if k else ()),
            Instruction(Kind.SIGNAL, peer=1, register=k, channel=k),
        )
        for k in range(2)
    )
    receiver = tuple((Instruction(Kind.WAIT, peer=0, register=0, channel=k),) for k in range(2))
    programs = tuple(Program("two", "all_reduce", r, 2, 1, threads) for r, threads in enumerate((sender, receiver)))
    trace = play(programs, direct(2, latency_s=0, bandwidth_Bps=1, copy_Bps=1), 10).trace
    copies, sends = (trace.take(trace.kind == kind) for kind in (Event.COPY, Event.SEND))
    assert list(zip(copies.start_s, copies.end_s, copies.channel, strict=True)) == [(0, 10, 0), (10, 20, 1)]
    assert list(zip(sends.end_s, sends.channel, strict=True)) == [(20, 0), (30, 1)]


def test_reading_and_writing_a_peers_memory_takes_its_path():
    """Rank 0 reads 10 bytes of rank 1's (11 s), adds them up (1 s), and writes them there (11 s)."""
    here, there = Operand(Space.INPUT, 0, 0), Operand(Space.INPUT, 0, 0, 1, 1)
    add = Instruction(Kind.REDUCE, (here._replace(space=Space.OUTPUT),), (here, there))
    put = Instruction(Kind.COPY, (there._replace(space=Space.OUTPUT),), (here._replace(space=Space.OUTPUT),))
    last = Instruction(Kind.COPY, (here._replace(space=Space.OUTPUT),), (here,))
    programs = (
        Program("one", "all_reduce", 0, 2, 1, ((add, put, last),)),
        Program("one", "all_reduce", 1, 2, 1, ((),)),
    )
    simulation = play(programs, direct(2, latency_s=1, bandwidth_Bps=1, reduce_Bps=10), 10)
    assert simulation.time_s == 11 + 1 + 11
    assert simulation.trace.start_s[simulation.trace.kind == Event.COPY].tolist() == [12, 23]
    assert simulation.trace.sent_nbytes().tolist() == [[0, 10], [10, 0]]
    assert simulation.link_busy_s.tolist() == [10, 10]
