"""The order in which sums are formed: by hand, and as an operation that is not even associative would see it."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.program import Kind, Program, Space
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform import channels, pipeline
from ringtree.verify import ReductionOrder, prove, rank_order
from tests.verify.by_hand import of

REDUCING = [(a, c) for a, c in pairs() if COLLECTIVES[c].reduces and not COLLECTIVES[c].repeats]

Tree = Any
"""A rank, or the list of what one instruction added up, in its order."""


def formed(programs: tuple[Program, ...], s: Schedule) -> list[Tree]:
    """How each chunk of each rank's output came to be, by running the programs."""
    spaces: list[dict[tuple[Space, int], Tree]] = [{} for _ in programs]
    for p, space in zip(programs, spaces, strict=True):
        held = s.promise.precondition(p.rank, s.ranks, s.chunks, s.root or 0)
        space.update({(Space.INPUT, k): p.rank for k in range(len(held))})
    lanes: dict[tuple[int, int], deque[list[Tree]]] = defaultdict(deque)
    registers: list[dict[tuple[Space, int], list[Tree]]] = [{} for _ in programs]
    done = [0] * s.ranks

    def step(r: int) -> bool:
        if done[r] == len(programs[r].instructions):
            return False
        i = programs[r].instructions[done[r]]
        if i.kind is Kind.WAIT:
            if not lanes[i.peer, r]:
                return False
            registers[r][Space.MESSAGE, i.register] = lanes[i.peer, r].popleft()
        elif i.kind is Kind.SIGNAL:
            lanes[r, i.peer].append(registers[r][Space.SLOT, i.register])
        elif i.kind is not Kind.RELEASE:
            read = [
                registers[r][o.space, o.index]
                if o.space is Space.MESSAGE
                else [spaces[r][o.space, o.index + k] for k in range(o.count)]
                for o in i.sources
            ]
            values = [list(parts) if len(parts) > 1 else parts[0] for parts in zip(*read, strict=True)]
            for t in i.targets:
                if t.space is Space.SLOT:
                    registers[r][t.space, t.index] = values
                else:
                    spaces[r].update({(t.space, t.index + k): value for k, value in enumerate(values)})
        done[r] += 1
        return True

    while any([step(r) for r in range(s.ranks)]):
        pass
    where = [(r, len(s.promise.postcondition(r, s.ranks, s.chunks, s.root or 0))) for r in range(s.ranks)]
    return [spaces[r][Space.OUTPUT, k] for r, many in where for k in range(many)]


def flat(tree: Tree) -> list[int]:
    return [x for part in tree for x in flat(part)] if isinstance(tree, list) else [tree]


def seen(s: Schedule) -> ReductionOrder:
    """The weakest order over the outputs."""
    least = ReductionOrder.FOLD
    for tree in formed(lower(s), s):
        ranks = flat(tree)
        order = ReductionOrder.ASSOCIATIVE if ranks == sorted(ranks) else ReductionOrder.ANY
        least = min(least, ReductionOrder.FOLD if tree in (ranks, ranks[0]) and order else order)
    return least


@pytest.mark.parametrize(("name", "collective"), REDUCING)
def test_the_order_is_that_of_the_operations(name: str, collective: str) -> None:
    for n in (1, 2, 3, 5, 8):
        for root in sorted({0, n // 2, n - 1}) if COLLECTIVES[collective].rooted else [None]:
            schedule = build(name, collective, n, root)
            for changed in (schedule, channels(pipeline(schedule, 2), 2)):
                assert rank_order(changed) == seen(changed), (n, root)


@pytest.mark.parametrize(
    ("name", "collective", "order"),
    [
        ("ring", "all_reduce", ReductionOrder.ANY),
        ("one_shot", "all_reduce", ReductionOrder.FOLD),
        ("two_shot", "all_reduce", ReductionOrder.FOLD),
        ("hillis_steele", "scan", ReductionOrder.ASSOCIATIVE),
        ("hillis_steele", "exscan", ReductionOrder.ASSOCIATIVE),
    ],
)
def test_of_some(name: str, collective: str, order: ReductionOrder) -> None:
    assert rank_order(build(name, collective, 6)) is order


def test_the_target_goes_first() -> None:
    def to(root: int, *rows: Transfers) -> Schedule:
        schedule = of("reduce", 3, 1, *rows, root=root)
        prove(schedule)
        assert rank_order(schedule) == seen(schedule)
        return schedule

    both = (Transfers.of(1, 0, reduce=True), Transfers.of(2, 0, reduce=True))
    assert rank_order(to(0, *both)) is ReductionOrder.FOLD
    assert rank_order(to(0, *both[::-1])) is ReductionOrder.ANY
    apart = (both[0], Transfers.of(2, 0, reduce=True, round=1))
    assert rank_order(to(0, *apart)) is ReductionOrder.ASSOCIATIVE
    chain = (Transfers.of(2, 1, reduce=True), Transfers.of(1, 0, reduce=True, round=1))
    assert rank_order(to(0, *chain)) is ReductionOrder.ASSOCIATIVE
    assert (
        rank_order(to(2, Transfers.of(0, 1, reduce=True), Transfers.of(1, 2, reduce=True, round=1)))
        is ReductionOrder.ANY
    )
    around = (Transfers.of(0, 2, reduce=True), Transfers.of(2, 1, reduce=True, round=1))
    assert rank_order(to(1, *around)) is ReductionOrder.ANY


def test_forwarded_chunks_keep_their_order() -> None:
    add = Transfers.of(
        [0, 1, 2], 2, reduce=[False, True, True], source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT
    )
    relay = Transfers.of(2, [0, 1], round=1, source_buffer=Buffer.OUTPUT, target_buffer=Buffer.OUTPUT)
    schedule = Schedule("relayed", "all_reduce", 3, 1, (Block(Transfers.concatenate([add, relay])),))
    prove(schedule)
    assert rank_order(schedule) is seen(schedule) is ReductionOrder.FOLD


def test_ranges_that_overlap_are_added_up_in_steps() -> None:
    rows = (Transfers.of(1, 0, 0, count=2, reduce=True), Transfers.of(2, 0, [0, 1], reduce=True))
    schedule = of("reduce", 3, 2, *rows, root=0)
    prove(schedule)
    assert rank_order(schedule) is seen(schedule) is ReductionOrder.ASSOCIATIVE


def test_nothing_reduced_has_no_order() -> None:
    with pytest.raises(ValueError, match="ring: all_gather reduces nothing, so it has no order"):
        rank_order(build("ring", "all_gather", 4))
