"""Programs as groups of sends and receives: no group waits for another in a circle, and nothing is read too late."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.program import Program, Space
from ringtree.ir.schedule import Schedule
from ringtree.runtime.engines.nccl.groups import (
    Compute,
    GroupedProgram,
    MemoryRange,
    Receive,
    TransferGroup,
    grouped,
)

RANKS = (2, 3, 4, 5, 7, 8)


def bound(program: Program, elements: int = 3) -> GroupedProgram:
    promise = COLLECTIVES[program.collective]
    sizes = promise.chunk_sizes(program.ranks, program.chunks, elements * program.ranks * program.chunks, None)
    where = (program.rank, program.ranks, program.chunks, program.root or 0)
    given, gotten = sizes[promise.precondition_labels(*where)], sizes[promise.postcondition_labels(*where)]
    offsets = np.cumsum(given) - given, np.cumsum(gotten) - gotten
    return grouped(*program.encode(), sizes, *offsets, program.scratch, promise.transposes)


def played(programs: list[GroupedProgram]) -> list[str]:
    """Plays the groups of all ranks with sends that end when their receiver takes them; the ranks that hang."""
    groups = [[s for s in p.steps if isinstance(s, TransferGroup)] for p in programs]
    at = [-1] * len(programs)
    offered: dict[tuple[int, int], deque[int]] = {}  # (sender, receiver) -> groups of the sender, in order
    wanted: dict[tuple[int, int], deque[int]] = {}
    unfinished = [0] * len(programs)
    moved = True
    while moved:
        moved = False
        for rank in range(len(programs)):
            while not unfinished[rank] and at[rank] + 1 < len(groups[rank]):
                at[rank] += 1
                moved = True
                group = groups[rank][at[rank]]
                for peer, _ in group.sends:
                    offered.setdefault((rank, peer), deque()).append(rank)
                    unfinished[rank] += 1
                for r in group.receives:
                    wanted.setdefault((r.peer, rank), deque()).append(rank)
                    unfinished[rank] += 1
        for pair in set(offered) & set(wanted):
            while offered[pair] and wanted[pair]:
                offered[pair].popleft()
                wanted[pair].popleft()
                unfinished[pair[0]] -= 1
                unfinished[pair[1]] -= 1
                moved = True
    return [
        f"rank {rank} in group {at[rank]} of {len(groups[rank])}"
        for rank in range(len(programs))
        if unfinished[rank] or at[rank] + 1 < len(groups[rank])
    ]


def schedules(collective: str, ranks: int) -> list[Schedule]:
    root = ranks - 1 if COLLECTIVES[collective].rooted else None
    return [build(name, collective, ranks, root) for name in serving(collective)]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_no_group_hangs_where_a_send_waits_for_its_receiver(collective: str, ranks: int) -> None:
    for schedule in schedules(collective, ranks):
        hanging = played([bound(program) for program in lower(schedule)])
        assert not hanging, f"{schedule.name}: {'; '.join(hanging)}"


def addresses(place: MemoryRange, program: Program, elements: int = 3) -> set[tuple[str, int]]:
    """The elements of a place when input and output are one memory."""
    promise, p = COLLECTIVES[program.collective], program
    if place.space == Space.SCRATCH:
        return {("scratch", at) for start, n in place.extents for at in range(start, start + n)}
    sizes = promise.chunk_sizes(p.ranks, p.chunks, elements * p.ranks * p.chunks, None)
    window = promise.precondition if place.space == Space.INPUT else promise.postcondition
    first = int(sizes[: window(p.rank, p.ranks, p.chunks, p.root or 0).start].sum())
    return {("data", first + at) for start, n in place.extents for at in range(start, start + n)}


def overwritten(program: Program) -> list[str]:
    """The sends of memory that is written, in place, before they are sure to have left."""
    found: list[str] = []
    views: dict[int, set[tuple[str, int]]] = {}
    steps = bound(program).steps
    last = {value: at for at, s in enumerate(steps) if isinstance(s, TransferGroup) for _, value in s.sends}
    for number, step in enumerate(steps):
        if isinstance(step, Compute):
            memory = [*step.targets, *(s for s in step.sources[:1] if isinstance(s, MemoryRange))][:1]
            written = {at for place in step.targets for at in addresses(place, program)}
            found += [f"step {number}: value {v}" for v, view in views.items() if written & view]
            views |= {k.value: addresses(memory[0], program) for k in step.kept if k.shared and memory}
        else:
            into = {at for r in step.receives if r.into for at in addresses(r.into, program)}
            found += [f"step {number}: value {v} and a receive" for v, view in views.items() if into & view]
            views = {value: view for value, view in views.items() if last.get(value, -1) > number}
    return found


@pytest.mark.parametrize("ranks", (2, 3, 4, 8))
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_nothing_is_overwritten_before_it_has_left(collective: str, ranks: int) -> None:
    for schedule in schedules(collective, ranks):
        for program in lower(schedule):
            if program.aliasable:
                assert not overwritten(program), f"{schedule.name}, rank {program.rank}"


def test_groups_that_hang_are_found() -> None:
    """Two ranks that first send, and then receive."""
    circle = [
        GroupedProgram((TransferGroup(((peer, 1),), ()), TransferGroup((), (Receive(peer, 2, 1, None),))), 0, ())
        for peer in (1, 0)
    ]
    assert played(circle) == ["rank 0 in group 0 of 2", "rank 1 in group 0 of 2"]


def test_a_ring_sends_and_receives_at_once_and_stages_nothing_that_it_only_passes_on() -> None:
    program = bound(lower(build("ring", "all_gather", 4, None))[1])
    exchanges = [s for s in program.steps if isinstance(s, TransferGroup)]
    assert [(len(e.sends), len(e.receives)) for e in exchanges] == [(1, 1)] * 3
    assert all(r.into is not None for e in exchanges for r in e.receives)
    assert all(kept.shared for s in program.steps if isinstance(s, Compute) for kept in s.kept)
