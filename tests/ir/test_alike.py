"""Alike ranks have the same program up to names: the program of one holds for all."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.algorithms.registry import pairs
from ringtree.ir.alike import alike
from ringtree.ir.collective import collective
from ringtree.ir.lower import lower
from ringtree.ir.program import Instruction, Kind
from ringtree.ir.schedule import Schedule
from ringtree.transform import channels, many_source, pipeline


def timed_parts(code: tuple[Instruction, ...]) -> list[tuple[object, ...]]:
    """The parts of each instruction on which its time depends: kind, peer, number of sources, chunks' labels."""
    rows = []
    for i in code:
        if i.kind != Kind.RELEASE:
            labels = tuple(range(i.targets[0].label, i.targets[0].label + i.targets[0].count)) if i.targets else ()
            rows.append((i.kind, i.peer, len(i.targets), len(i.sources), labels))
    return rows


def written_out(schedule: Schedule) -> dict[int, list[tuple[object, ...]]]:
    """Every rank's instructions, computed from those of its kind."""
    found = {}
    for kind in alike(schedule):
        for i, rank in enumerate(kind.ranks.tolist()):
            peers = dict(zip(kind.peers[0].tolist(), kind.peers[i].tolist(), strict=True))
            labels = dict(zip(kind.labels[0].tolist(), kind.labels[i].tolist(), strict=True))
            rows = [
                (*head[:1], peers.get(head[1], -1), *head[2:], tuple(sorted(labels[x] for x in own)))
                for *head, own in timed_parts(kind.code)
            ]
            who, start, count = kind.finish
            for s, c in zip(start[who == i].tolist(), count[who == i].tolist(), strict=True):
                rows.append((Kind.COPY, -1, 1, 1, tuple(range(s, s + c))))
            found[rank] = rows
    return found


@pytest.mark.parametrize("ranks", [(3, 5), pytest.param((1, 2, 8, 12), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(("name", "what"), pairs(), ids=[f"{a}-{c}" for a, c in pairs()])
def test_a_kind_gives_each_ranks_program(name: str, what: str, ranks: tuple[int, ...]) -> None:
    for n in ranks:
        for root in {0, n - 1} if collective(what).rooted else {None}:
            plain = build(name, what, n, root)
            cut = [plain, pipeline(plain, 3), channels(plain, 2)] if n in (5, 8) else [plain]
            for schedule in [*cut, many_source(plain)]:
                got = written_out(schedule)
                assert [got[r] for r in range(n)] == [timed_parts(p.instructions) for p in lower(schedule)]


def test_a_ring_has_one_kind_however_many_they_are() -> None:
    kinds = list(alike(build("ring", "all_reduce", 100)))
    assert len(kinds) == 1 and np.array_equal(kinds[0].ranks, np.arange(100))


def test_ranks_that_differ_are_of_several_kinds() -> None:
    kinds = {tuple(k.ranks.tolist()) for k in alike(build("binomial", "broadcast", 8))}
    assert kinds == {(0,), (1, 3, 5, 7), (2, 6), (4,)}
