"""Messages to all other ranks are marked where an engine may carry them as one: the same on both sides, in order."""

from collections import defaultdict

import numpy as np
import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import MOST_MULTICASTS, lower
from ringtree.ir.program import Kind, Program
from ringtree.ir.schedule import Block, Schedule, Transfers

EVERY = [(name, kind, ranks) for kind in COLLECTIVES for name in serving(kind) for ranks in (3, 4, 6, 8)]


def order(programs: tuple[Program, ...], kind: Kind) -> dict[tuple[int, int], list[bool]]:
    """Per (sender, receiver): which of the messages are of multicasts, in the order of these instructions."""
    found = defaultdict(list)
    for p in programs:
        for i in p.instructions:
            if i.kind is kind:
                found[(p.rank, i.peer) if kind is Kind.SIGNAL else (i.peer, p.rank)].append(i.multicast)
    return found


def multicasts(program: Program) -> int:
    """How many a program sends; each must be a run of signals of one slot, one to each other rank."""
    code, at, sent = program.instructions, 0, 0
    others = {*range(program.ranks)} - {program.rank}
    while at < len(code):
        if code[at].kind is not Kind.SIGNAL or not code[at].multicast:
            at += 1
            continue
        run = code[at : at + len(others)]
        assert {i.peer for i in run} == others and {i.register for i in run} == {code[at].register}
        assert all(i.kind is Kind.SIGNAL and i.multicast for i in run)
        at, sent = at + len(others), sent + 1
    return sent


@pytest.mark.parametrize("name, kind, ranks", EVERY)
def test_both_sides_mark_the_same_messages_in_one_order(name, kind, ranks):
    root = 1 if COLLECTIVES[kind].rooted else None
    try:
        programs = lower(build(name, kind, ranks, root))
    except ValueError:
        pytest.skip("not for so many ranks")
    signals = order(programs, Kind.SIGNAL)
    assert signals == order(programs, Kind.WAIT)
    assert signals == order(programs, Kind.RELEASE)
    assert all(multicasts(p) <= MOST_MULTICASTS for p in programs)


@pytest.mark.parametrize(
    "name, kind, ranks, sent",
    [
        ("one_shot", "all_reduce", 4, [1, 1, 1, 1]),
        ("one_shot", "all_reduce", 2, [0, 0]),
        ("two_shot", "all_reduce", 4, [1, 1, 1, 1]),
        ("ring", "all_reduce", 4, [0, 0, 0, 0]),
        ("flat", "broadcast", 4, [0, 1, 0, 0]),
        ("flat", "scatter", 4, [0, 0, 0, 0]),
        ("flat", "gather", 4, [0, 0, 0, 0]),
    ],
)
def test_what_goes_to_all_is_one_message(name, kind, ranks, sent):
    root = 1 if COLLECTIVES[kind].rooted else None
    assert [multicasts(p) for p in lower(build(name, kind, ranks, root))] == sent


def broadcasts(rounds: int, ranks: int = 4, *more: tuple[int, int, int]) -> Schedule:
    """Rank 0 sends chunk k to all in round k; `more`: (round, target, chunk) that it sends besides."""
    rows = [(k, t, k) for k in range(rounds) for t in range(1, ranks)] + list(more)
    at, target, chunk = np.array(sorted(rows)).T
    rows = Transfers.of(np.zeros_like(at), target, chunk, round=at)
    return Schedule("broadcasts", "broadcast", ranks, rounds, (Block(rows),), root=0)


@pytest.mark.parametrize(
    "schedule, sent",
    [
        (broadcasts(MOST_MULTICASTS), MOST_MULTICASTS),
        (broadcasts(MOST_MULTICASTS + 1), 0),  # more than a lane is sure to hold
        (broadcasts(2, 4, (0, 2, 1)), 1),  # another message in a round: its place in the order is not the same to all
        (broadcasts(2, 4, (1, 2, 1)), 1),  # twice to one rank
        (broadcasts(1, 2), 0),
    ],
)
def test_no_more_than_a_lane_holds_and_nothing_else_in_the_round(schedule, sent):
    assert multicasts(lower(schedule)[0]) == sent
