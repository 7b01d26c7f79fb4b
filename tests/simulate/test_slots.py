"""With the number of slots that the proof computes, programs play to their end; with one fewer they get stuck."""

import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.lower import lower
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.trace import Event
from ringtree.simulate import Job, StuckError, play
from ringtree.topology import cluster, direct
from ringtree.verify import prove_programs


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
def test_the_slots_that_the_proof_finds_are_enough_and_one_fewer_are_not(algorithm, collective):
    programs = lower(build(algorithm, collective, 6))
    fewest = prove_programs(programs).slots
    unlimited = play(programs, cluster(2, 3), 6000)
    limited = play(programs, cluster(2, 3), 6000, slots=max(fewest, 1))
    assert limited.trace.sent_nbytes().tolist() == unlimited.trace.sent_nbytes().tolist()
    if fewest > 1:
        with pytest.raises(StuckError, match="waits for a slot"):
            play(programs, cluster(2, 3), 6000, slots=fewest - 1)


def refilled(source, target, ranks=4):
    """The source fills the same register twice and sends both; the target gives each back as it comes."""
    data = Operand(Space.INPUT, 0, 0)
    slot, got = data._replace(space=Space.SLOT), data._replace(space=Space.MESSAGE)
    send = (Instruction(Kind.COPY, (slot,), (data,)), Instruction(Kind.SIGNAL, peer=target, register=0))
    take = (
        Instruction(Kind.WAIT, peer=source, register=0),
        Instruction(Kind.COPY, (data._replace(space=Space.OUTPUT),), (got,)),
        Instruction(Kind.RELEASE, peer=source),
    )
    code = {source: send * 2, target: take * 2}
    return tuple(Program("mine", "all_reduce", r, ranks, 1, (code.get(r, ()),)) for r in range(ranks))


def stalls(simulation):
    t = simulation.trace.take(simulation.trace.kind == Event.STALL)
    return list(zip(t.rank, t.call, t.start_s, t.end_s, t.peer, strict=True))


def test_jobs_have_slots_of_their_own():
    """Every message takes 10 s and every copy at its end 5; each sender has one slot."""
    t = direct(4, latency_s=0, bandwidth_Bps=1, copy_Bps=2)
    assert stalls(play(refilled(0, 1), t, 10, slots=1)) == [(0, 0, 5, 20, 1)]
    assert stalls(play(refilled(0, 1), t, 10, slots=2)) == []
    jobs = [Job(refilled(0, 1), 10), Job(refilled(2, 3), 10, 1.0), Job(refilled(2, 3), 0)]
    assert stalls(play(jobs, t, slots=1)) == [(0, 0, 5, 20, 1), (2, 1, 6, 21, 3)]


def test_a_threaded_rank_has_slots_for_each_lane():
    """Two threads, a lane each: neither waits for the other's."""
    one, two = (refilled(0, k)[0].instructions for k in (1, 2))
    takers = [refilled(0, k)[k] for k in (1, 2)]
    first = Program("mine", "all_reduce", 0, 4, 1, (one, two))
    programs = (first, *takers, refilled(0, 1)[3])
    t = direct(4, latency_s=0, bandwidth_Bps=1, copy_Bps=2)
    assert sorted(stalls(play(programs, t, 10, slots=1))) == [(0, 0, 5, 20, 1), (0, 0, 5, 20, 2)]


def test_a_slot_that_its_own_rank_reads_later_is_not_free():
    """Of one slot the second filling waits for the first to be read, which comes after it."""
    data = Operand(Space.INPUT, 0, 0)
    one, two = (data._replace(space=Space.SLOT, index=k) for k in range(2))
    send, take = refilled(0, 1, 2)[0].instructions[:2], refilled(0, 1, 2)[1]
    late = (Instruction(Kind.COPY, (two,), (data,)), Instruction(Kind.SIGNAL, peer=1, register=1))
    read = (Instruction(Kind.COPY, (data._replace(space=Space.OUTPUT),), (one,)),)
    stuck, well = (Program("mine", "all_reduce", 0, 2, 1, (code,)) for code in (send + late + read, send + read + late))
    with pytest.raises(StuckError, match="rank 0 waits for a slot"):
        play((stuck, take), direct(2), 10, slots=1)
    assert len(stalls(play((well, take), direct(2), 10, slots=1))) == 1
