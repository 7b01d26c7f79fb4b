"""Shared links, the order of messages, and late, slow or broken parts: small cases worked out by hand.

Links have 1 byte a second and no latency, unless a test sets others, so that bytes are seconds.
"""

from dataclasses import replace

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.trace import Event
from ringtree.simulate import Conditions, Job, StuckError, play
from ringtree.simulate.fairness import MANY
from ringtree.topology import Topology, cluster, direct, ring, switch

IN, OUT, SLOT, MESSAGE = Space.INPUT, Space.OUTPUT, Space.SLOT, Space.MESSAGE


def unit(shape, *args):
    return shape(*args, latency_s=0, bandwidth_Bps=1)


def messages(n, *sends, chunks=1):
    """Programs that send the whole vector of `chunks` chunks, or one chunk of it, in the order listed: (source, target)
    or (source, target, chunk)."""
    code = [[] for _ in range(n)]
    for number, (source, target, *chunk) in enumerate(sends):
        operand = Operand(IN, chunk[0] if chunk else 0, chunk[0] if chunk else 0, 1 if chunk else chunks)
        code[source].append(Instruction(Kind.COPY, (operand._replace(space=SLOT, index=number),), (operand,)))
        code[source].append(Instruction(Kind.SIGNAL, peer=target, register=number))
    for number, (source, target, *_) in enumerate(sends):
        code[target] += [
            Instruction(Kind.WAIT, peer=source, register=number),
            Instruction(Kind.RELEASE, peer=source),
        ]
    return tuple(Program("mine", "all_reduce", r, n, chunks, (tuple(code[r]),)) for r in range(n))


def arrivals(simulation):
    """When each message arrived, by (source, target, call)."""
    t = simulation.trace
    sends = t.take(t.kind == Event.SEND)
    keys = zip(sends.rank.tolist(), sends.peer.tolist(), sends.call.tolist(), strict=True)
    return dict(zip(keys, sends.end_s.tolist(), strict=True))


def test_two_flows_share_a_link_half_and_half():
    """Both go to rank 2, down one link."""
    got = arrivals(play(messages(3, (0, 2), (1, 2)), unit(switch, 3), 10))
    assert got == {(0, 2, 0): 20, (1, 2, 0): 20}


def test_the_longer_flow_has_the_link_alone_when_the_shorter_one_is_through():
    """8 bytes at 1/2, then 4 bytes alone."""
    jobs = [Job(messages(3, (0, 2)), 4), Job(messages(3, (1, 2)), 8)]
    assert arrivals(play(jobs, unit(switch, 3))) == {(0, 2, 0): 8, (1, 2, 1): 12}


def test_a_flow_that_begins_later_shares_from_then_on():
    """Alone for 6 s, then both at 1/2: the first has 4 bytes left and the second 10."""
    jobs = [Job(messages(3, (0, 2)), 10), Job(messages(3, (1, 2)), 10, start_s=6)]
    assert arrivals(play(jobs, unit(switch, 3))) == {(0, 2, 0): 14, (1, 2, 1): 20}


def test_three_flows_are_max_min_fair():
    """A line a-b-c of 10 and 20 bytes a second. Over both links, over the first, over the second: 5, 5 and 15 bytes a
    second (Bertsekas and Gallager 1992, 6.5.2), until the third's 30 bytes are through after 2 s; that changes nothing
    for the others, whom the first link holds."""
    t = Topology.of("line", 3, ("a", "b", "c"), [0, 1], [1, 2], 0, [10, 20])
    jobs = [Job(messages(3, ends), 30) for ends in ((0, 2), (0, 1), (1, 2))]
    assert arrivals(play(jobs, t)) == {(0, 2, 0): 6, (0, 1, 1): 6, (1, 2, 2): 2}


def test_a_port_sends_one_message_after_the_other():
    """Over a switch rank 0 has one port; over links of their own it has two."""
    programs = messages(3, (0, 1), (0, 2))
    assert arrivals(play(programs, unit(switch, 3), 10)) == {(0, 1, 0): 10, (0, 2, 0): 20}
    assert arrivals(play(programs, unit(direct, 3), 10)) == {(0, 1, 0): 10, (0, 2, 0): 10}


def test_latency_does_not_hold_the_port():
    t = switch(2, latency_s=100, bandwidth_Bps=1)
    trace = play(messages(2, (0, 1), (0, 1)), t, 10).trace
    assert trace.end_s[trace.kind == Event.SEND].tolist() == [110, 120]


def test_jobs_have_ports_of_their_own_and_share_links():
    jobs = [Job(messages(2, (0, 1)), 10), Job(messages(2, (0, 1)), 10)]
    simulation = play(jobs, unit(switch, 2))
    assert arrivals(simulation) == {(0, 1, 0): 20, (0, 1, 1): 20}
    assert simulation.trace.calls == ("mine all_reduce(10 bytes)",) * 2
    assert sorted(set(simulation.trace.channel.tolist())) == [0, 1]  # distinct, so that messages pair


@pytest.mark.parametrize("n", [3, 2 * MANY])
def test_on_links_without_a_limit_nobody_waits_for_another(n):
    """However the rates are found: of few flows or of many."""
    job = Job(build("one_shot", "all_reduce", n), 8 * n)
    together = play([job, job], switch(n, latency_s=1, bandwidth_Bps=np.inf), slots=n)
    assert together.time_s == 1
    assert not together.link_busy_s.any()


def test_several_collectives_take_longer_together_than_alone_but_less_than_in_turn():
    jobs = [Job(build("ring", "all_reduce", 4), 400), Job(build("double_tree", "all_reduce", 4), 400)]
    together = play(jobs, unit(switch, 4)).time_s
    alone = [play([job], unit(switch, 4)).time_s for job in jobs]
    assert max(alone) < together <= sum(alone)


def test_bytes_and_busy_time_of_links():
    """Two flows together: 20 s on the link they share, and 20 s on each of their own, for they are slowed."""
    simulation = play(messages(3, (0, 2), (1, 2)), unit(switch, 3), 10)
    t = simulation.topology
    busy = {t.link_name(k): simulation.link_busy_s[k] for k in range(t.links) if simulation.link_busy_s[k]}
    assert busy == {"rank0 -> switch": 20, "rank1 -> switch": 20, "switch -> rank2": 20}
    assert simulation.link_nbytes[t.link(3, 2)] == 20


def test_a_rank_that_starts_late_holds_up_the_ring_by_as_much():
    schedule, well = build("ring", "all_reduce", 8), play(build("ring", "all_reduce", 8), direct(8), 8 << 10).time_s
    late = play(schedule, direct(8), 8 << 10, conditions=Conditions(delay_s={3: 1e-3}))
    assert late.time_s == pytest.approx(1e-3 + well)
    first = late.trace.take(late.trace.rank == 3).start_s.min()
    assert first == 1e-3


def test_a_slow_rank_takes_that_much_longer_for_its_own_work():
    """One message from a rank that is 3 times slower: its copy and its overhead, not the receiver's."""
    t = direct(2, latency_s=0, bandwidth_Bps=1, message_s=2, step_s=1, copy_Bps=10)
    assert play(messages(2, (0, 1)), t, 10).time_s == (1 + 1 + 2) + 10 + 2
    slow = Conditions(slowdown={0: 3})
    assert play(messages(2, (0, 1)), t, 10, conditions=slow).time_s == 3 * (1 + 1 + 2) + 10 + 2


def test_a_slowed_link():
    half = Conditions(links={(3, 1): 0.5})
    got = arrivals(play(messages(3, (0, 1), (0, 2)), unit(switch, 3), 10, conditions=half))
    assert got == {(0, 1, 0): 20, (0, 2, 0): 30}


def test_where_links_are_shared_a_slower_link_may_help():
    """Ranks 0 and 1 send to 2, which passes on what 0 sent to 3. Half and half both arrive after 20 s, and the end is
    after 30. With 0.4 for rank 1, rank 0 has 0.6 of the link they share and is through after 16 2/3 s."""
    programs = list(messages(4, (0, 2), (1, 2), (2, 3)))
    copy, signal, first, release, *second = programs[2].instructions
    programs[2] = replace(programs[2], threads=((first, release, copy, signal, *second),))
    assert play(programs, unit(switch, 4), 10).time_s == 30
    slower = Conditions(links={(1, 4): 0.4})
    assert play(programs, unit(switch, 4), 10, conditions=slower).time_s == pytest.approx(10 / 0.6 + 10)


def test_a_failed_link_is_gone_round():
    """The slow path round a ring of 4."""
    broken = Conditions(links={(0, 1): 0})
    t = ring(4, latency_s=1, bandwidth_Bps=1)
    assert arrivals(play(messages(4, (0, 1)), t, 10, conditions=broken)) == {(0, 1, 0): 13}


@pytest.mark.parametrize(
    ("shape", "links", "message"),
    [
        (switch(4), {(4, 2): 0}, "rank 2 waits for rank 1's message in ring all_reduce.*link switch -> rank2 failed"),
        (ring(4), {(1, 2): 0, (1, 0): 0}, "links rank1 -> rank0, rank1 -> rank2 failed.*no other route from rank1 to"),
    ],
)
def test_a_failed_link_without_another_route_is_named(shape, links, message):
    with pytest.raises(StuckError, match=message) as caught:
        play(build("ring", "all_reduce", 4), shape, 400, conditions=Conditions(links=links))
    assert "3 other ranks cannot go on either" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_topology_without_a_route_is_named():
    t = Topology.of("halves", 2, ("a", "b"), 0, 1, 0, 1)
    with pytest.raises(StuckError, match=r"rank 0 waits for rank 1's message in .*: halves has no route from b to a"):
        play(messages(2, (1, 0)), t, 1)
    t = Topology.of("apart", 2, ("a", "b"), [], [], [], [])
    with pytest.raises(StuckError, match="apart has no route from b to a"):
        play(build("ring", "all_reduce", 2), t, 8)


def test_programs_that_wait_for_a_message_nobody_sends():
    alone = Program("mine", "all_reduce", 0, 2, 1, ((Instruction(Kind.WAIT, peer=1, register=0),),))
    with pytest.raises(StuckError, match=r"rank 0 waits for rank 1's message in mine all_reduce.*: it sends none"):
        play((alone, Program("mine", "all_reduce", 1, 2, 1, ((),))), direct(2), 1)


def test_a_sender_stalls_for_a_slot():
    """One slot: the second copy waits until rank 1 has given the first back, after 10 s there."""
    code = list(messages(2, (0, 1), (0, 1)))
    simulation = play(code, unit(direct, 2), 10, slots=1)
    trace = simulation.trace
    stall = trace.take(trace.kind == Event.STALL)
    assert (stall.rank[0], stall.start_s[0], stall.end_s[0], stall.peer[0], stall.call[0]) == (0, 0, 10, 1, 0)
    assert simulation.time_s == 20
    assert not (play(code, unit(direct, 2), 10, slots=2).trace.kind == Event.STALL).any()


def test_too_few_slots_are_named():
    """Both write two payloads before either gives one back."""
    both = messages(2, (0, 1), (0, 1), (1, 0), (1, 0))
    with pytest.raises(StuckError, match=r"rank 0 waits for a slot in mine.*of the 1 slot it has; 1 other rank"):
        play(both, direct(2), 10, slots=1)


def test_hosts_share_their_nics():
    """All 4 ranks of a host send to the other one at once, through one NIC of 1 byte a second, 4 of 4, or 2 of 2."""
    sends = [(r, r + 4) for r in range(4)]
    for nics, seconds in ((1, 40), (2, 20), (4, 10)):
        t = cluster(2, 4, nics=nics, latency_s=0, bandwidth_Bps=1, local_latency_s=0)
        assert play(messages(8, *sends), t, 10).time_s == seconds


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (Conditions(delay_s={9: 1}), r"delay_s of rank 9: expected a rank of 0\.\.1"),
        (Conditions(delay_s={0: -1}), "delay_s of rank 0 is -1; expected at least 0"),
        (Conditions(slowdown={0: 0}), "slowdown of rank 0 is 0; expected more than 0"),
        (Conditions(links={(0, 2): 0}), "has no node 2"),
        (Conditions(links={(0, 1): -1}), "factor of link rank0 -> rank1 is -1"),
        (Conditions(jitter=-1), "jitter is -1"),
    ],
)
def test_conditions_that_cannot_be_are_refused(conditions, message):
    with pytest.raises(ValueError, match=message):
        play(messages(2, (0, 1)), direct(2), 1, conditions=conditions)


def test_a_condition_is_a_number():
    with pytest.raises(TypeError, match="delay_s of rank 1 is '1ms'; expected a number"):
        play(messages(2, (0, 1)), direct(2), 1, conditions=Conditions(delay_s={1: "1ms"}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((messages(3, (0, 1)), direct(2), 1), "mine is for 3 ranks; expected at most the 2 of direct"),
        ((messages(2, (0, 1))[:1], direct(2), 1), "1 programs of ranks"),
        ((messages(2, (0, 1)), direct(2)), "expected nbytes"),
        (([Job(messages(2, (0, 1)), 1)], direct(2), 1), "expected none here"),
        (([Job(messages(2, (0, 1)), 1, -1.0)], direct(2)), "job 0 starts at -1.0 s"),
        ((messages(2, (0, 1)), direct(2), -1), "job 0: -1 bytes; expected at least 0"),
        (([], direct(2), 1), "0 programs"),
    ],
)
def test_unplayable_schedules_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        play(*arguments)
