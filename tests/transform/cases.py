"""Schedules for the tests of transforms: every algorithm for every collective it serves, over any few ranks."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ringtree import algorithms
from ringtree.ir import spec
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from tests import oracle

OF_NO_PREFIX = tuple(name for name, promise in COLLECTIVES.items() if not promise.prefix)
"""Ranks of the others cannot be exchanged, nor can time be turned."""


def keeps_its_promise(schedule: Schedule) -> None:
    spec.check(schedule)
    assert oracle.wrong(schedule) is None


@st.composite
def built(draw: st.DrawFn, largest: int = 9, collectives: tuple[str, ...] = tuple(COLLECTIVES)) -> Schedule:
    """Any schedule of the registry."""
    name, collective = draw(st.sampled_from([p for p in algorithms.pairs() if p[1] in collectives]))
    ranks = draw(st.integers(1, largest))
    root = draw(st.integers(0, ranks - 1)) if COLLECTIVES[collective].rooted else None
    return algorithms.build(name, collective, ranks, root)


class Strange:
    """Schedules with features that none of the registry's has, which the transforms must keep too."""

    name, serves = "strange", ("all_gather", "broadcast")

    def build(self, collective: str, ranks: int, root: int | None = None, /) -> Schedule:
        return carousel(ranks) if collective == "all_gather" else hops(ranks, root or 0)


def carousel(ranks: int) -> Schedule:
    """all_gather: blocks go round through one chunk of scratch, which is read and overwritten in the same round."""
    rank = np.arange(ranks)
    aside = {"source_buffer": Buffer.SCRATCH}
    get_on = Transfers.of(rank, rank, rank, to=0, target_buffer=Buffer.SCRATCH)
    turn = Transfers.of(rank, (rank + 1) % ranks, 0, target_buffer=Buffer.SCRATCH, **aside)
    get_off = Transfers.of(rank, rank, 0, to=(rank - 1) % ranks, round=1, **aside)
    lap = Block(Transfers.concatenate([turn, get_off]), max(ranks - 1, 1), Shift(target_chunk=-1))
    blocks = (Block(get_on), lap) if ranks > 1 else ()
    return Schedule("carousel", "all_gather", ranks, ranks, blocks, scratch=1)


def hops(ranks: int, root: int) -> Schedule:
    """broadcast along a chain, written as one row that moves on."""
    blocks = (Block(Transfers.of(root, (root + 1) % ranks), ranks - 1, Shift(1, 1)),) if ranks > 1 else ()
    return Schedule("hops", "broadcast", ranks, 1, blocks, root)


def through_scratch(slots: int) -> Schedule:
    """broadcast of 3 chunks from 0 to 1 through `slots` chunks of scratch, beginning with the last one."""
    there = Transfers.of(0, 1, 0, to=slots - 1, target_buffer=Buffer.SCRATCH)
    home = Transfers.of(1, 1, (slots - 1 + np.arange(3)) % slots, to=np.arange(3), source_buffer=Buffer.SCRATCH)
    blocks = (Block(there, 3, Shift.chunk(1)), Block(home))
    return Schedule("through_scratch", "broadcast", 2, 3, blocks, 0, scratch=slots)


def sliding() -> Schedule:
    """all_gather over 3 ranks, blocks of 2: all to rank 0, which sends overlapping pairs of chunks across blocks."""
    gather = Transfers.of([1, 2], 0, [2, 4], count=2)
    spread = Transfers.of(0, [1, 2], 0, count=2)
    return Schedule("sliding", "all_gather", 3, 6, (Block(gather), Block(spread, 5, Shift.chunk(1))))


def relay() -> Schedule:
    """broadcast of 2 chunks over 3 ranks in two buffers: one after the other through scratch, then out of an output."""
    given, side, out = Buffer.INPUT, Buffer.SCRATCH, Buffer.OUTPUT
    rows = Transfers.of(
        source=[0, 0, 0, 1, 0, 1, 1],
        target=[0, 0, 1, 1, 1, 1, 2],
        round=[0, 0, 0, 1, 2, 3, 4],
        chunk=[0, 1, 0, 0, 1, 0, 0],
        to=[0, 1, 0, 0, 0, 1, 0],
        count=[1, 1, 1, 1, 1, 1, 2],
        source_buffer=[given, given, given, side, given, side, out],
        target_buffer=[out, out, side, out, side, out, out],
    )
    return Schedule("relay", "broadcast", 3, 2, (Block(rows),), 0, scratch=1)


def idle() -> list[Schedule]:
    """reduce to 0 over 3 ranks with a transfer that nobody uses: stored in vain, and added where a store follows."""
    vain = Transfers.of([1, 2, 2], [0, 1, 0], round=[0, 1, 2], reduce=[True, False, True])
    over = Transfers.of([1, 0, 2, 1], [0, 1, 1, 0], round=[0, 1, 1, 2], reduce=[True, True, False, True])
    return [Schedule("idle", "reduce", 3, 1, (Block(rows),), 0) for rows in (vain, over)]


STRANGE = [
    *(carousel(n) for n in (1, 2, 5)),
    hops(4, 3),
    through_scratch(3),
    through_scratch(5),
    sliding(),
    relay(),
    *idle(),
]
