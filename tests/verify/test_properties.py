"""Properties of every schedule that is built, transformed or made wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtree import algorithms
from ringtree.algorithms import REGISTRY
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.program import Instruction, Program
from ringtree.ir.schedule import Schedule
from ringtree.ir.spec import ScheduleError
from ringtree.transform import channels, nest, pipeline, relabel
from ringtree.transform.phases import BETWEEN, INSIDE, PHASES
from ringtree.verify import ProofError, prove, prove_programs
from ringtree.verify.progress import play
from ringtree.verify.races import check_races
from ringtree.verify.wiring import wire
from tests import oracle
from tests.verify import random_engine
from tests.verify.by_hand import copy, get, program, put, signal, wait
from tests.verify.mutation import mutants


@st.composite
def built(draw: st.DrawFn, largest: int = 10) -> Schedule:
    name, collective = draw(st.sampled_from(algorithms.pairs()))
    ranks = draw(st.integers(1, largest))
    root = draw(st.integers(0, ranks - 1)) if COLLECTIVES[collective].rooted else None
    return algorithms.build(name, collective, ranks, root)


@st.composite
def nested(draw: st.DrawFn) -> Schedule:
    collective = draw(st.sampled_from(sorted(PHASES)))
    way = draw(st.sampled_from(PHASES[collective]))
    inner, outer = (
        draw(st.sampled_from([a for a in REGISTRY.values() if all(c in a.serves for w, c in way if w == where)]))
        for where in (INSIDE, BETWEEN)
    )
    group, groups = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    root = draw(st.integers(0, group * groups - 1)) if COLLECTIVES[collective].rooted else None
    return nest(collective, inner, outer, group * groups, group, root)


@st.composite
def changed(draw: st.DrawFn) -> Schedule:
    """Built or nested, then perhaps its ranks in another order, its chunks cut, its channels several."""
    schedule = draw(st.one_of(built(), nested()))
    if not schedule.promise.prefix and draw(st.booleans()):
        schedule = relabel(schedule, draw(st.permutations(range(schedule.ranks))))
    if draw(st.booleans()):
        schedule = pipeline(schedule, draw(st.integers(1, 4)))
    if draw(st.booleans()):
        schedule = channels(schedule, draw(st.integers(1, 3)))
    return schedule


@given(changed())
def test_every_built_schedule_and_its_programs_are_proved(schedule: Schedule) -> None:
    proof = prove(schedule)
    assert (proof.rounds, proof.transfers) == (schedule.rounds, schedule.transfers)
    programs = lower(schedule)
    needed = prove_programs(programs).slots
    assert prove_programs(programs, slots=needed).slots == needed
    if needed:
        with pytest.raises(ProofError, match=f"deadlock with {needed - 1} slot"):
            prove_programs(programs, slots=needed - 1)


@given(built(largest=6), st.data())
def test_a_schedule_with_several_faults_is_judged_as_by_the_oracle(schedule: Schedule, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        every = list(mutants(schedule))
        if every:
            schedule = data.draw(st.sampled_from(every)).schedule
    try:
        prove(schedule)
    except ScheduleError:
        return
    except ProofError:
        assert oracle.wrong(schedule) is not None
    else:
        assert oracle.wrong(schedule) is None


@settings(max_examples=60, deadline=None)
@given(built(largest=6), st.integers(0, 2**32))
def test_the_fewest_slots_are_those_a_random_engine_needs(schedule: Schedule, seed: int) -> None:
    programs = lower(schedule)
    needed = prove_programs(programs).slots
    assert random_engine.finishes(programs, needed, seed)
    assert random_engine.finishes(programs, needed + 1, seed)
    assert not needed or not random_engine.finishes(programs, needed - 1, seed)


@st.composite
def threaded(draw: st.DrawFn) -> list[Program]:
    """Two ranks of two threads that touch two chunks of each other's output; written in one order that is possible,
    so that they end."""
    code: list[list[list[Instruction]]] = [[[], []], [[], []]]
    pending: list[tuple[int, int]] = []  # sender's rank and thread: a lane each, channel = thread
    for _ in range(draw(st.integers(2, 12))):
        rank, thread = draw(st.integers(0, 1)), draw(st.integers(0, 1))
        mine, what = code[rank][thread], draw(st.sampled_from(["own", "get", "put", "after", "signal", "wait"]))
        chunk = draw(st.integers(0, 1))
        if what == "own":
            mine.append(copy(f"output{chunk}", f"input{chunk}", chunk))
        elif what == "get":
            mine.append(get("scratch0", f"output{chunk}", 1 - rank, chunk))
        elif what == "put":
            mine.append(put(f"output{chunk}", 1 - rank, f"input{chunk}", chunk))
        elif what == "after" and code[rank][1 - thread]:
            step = draw(st.integers(0, len(code[rank][1 - thread]) - 1))
            mine.append(copy("output0", "scratch0", after=((1 - thread, step),)))
        elif what == "signal":
            mine.append(signal(1 - rank, -1, thread))
            pending.append((rank, thread))
        elif what == "wait" and (1 - rank, thread) in pending:
            mine.append(wait(1 - rank, -1, thread))
            pending.remove((1 - rank, thread))
    for rank, thread in pending:
        code[1 - rank][thread].append(wait(rank, -1, thread))
    return [program(r, *threads, collective="all_reduce", chunks=2, scratch=1) for r, threads in enumerate(code)]


@given(threaded())
def test_races_are_found_where_brute_force_finds_them(programs: list[Program]) -> None:
    w = wire(programs)
    runs = play(w).runs
    try:
        check_races(w, runs)
    except ProofError as found:
        assert "race: " in str(found)
        assert random_engine.races(programs)
    else:
        assert not random_engine.races(programs)
