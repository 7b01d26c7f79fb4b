"""Hierarchical composition of collectives that move blocks and add nothing up, over groups of any ranks and sizes.

gather and scatter go through a leader of each group, as in Kielmann and others (MagPIe: MPI's collective communication
operations for clustered wide area systems, 1999).
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm

import numpy as np

from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform.nest_all_to_all import nest_all_to_all
from ringtree.transform.one_buffer import in_place
from ringtree.transform.phases import Indices, Members, ScheduleBuilder, nesting_of
from ringtree.transform.relabel import relabel
from ringtree.transform.reverse import reverse
from ringtree.transform.rows import by_round, joined, later, single

BLOCKWISE = ("gather", "scatter", "all_to_all")
"""The collectives that are nested here whatever the groups."""


def nest_blocks(
    collective: str, inner: ScheduleBuilder, outer: ScheduleBuilder, members: Members, root: int | None = None
) -> Schedule:
    """`inner` in each group and `outer` between them. ValueError where inner or outer does not serve its part, or moves
    blocks other than from their place to their place.

    all_gather: a block crosses once to each other group, received by a rank of about the sender's index. gather and
    scatter: the root and the first rank of every other group take part in outer. all_to_all: nest_all_to_all.
    """
    nesting_of(collective, inner, outer)
    name, order = f"{inner.name}+{outer.name}", np.concatenate(members)
    if len(members) == 1:
        return replace(inner.build(collective, len(order), root), name=name)
    if len(order) == len(members):
        at = None if root is None else int(np.flatnonzero(order == root)[0])
        whole = replace(outer.build(collective, len(order), at), name=name)
        return whole if np.array_equal(order, np.arange(len(order))) else relabel(whole, order)
    if collective == "all_to_all":
        return nest_all_to_all(inner, outer, members)
    if collective == "all_gather":
        return _all_gather(inner, outer, members)
    gathered = _gather(collective, inner, outer, members, root or 0)
    return gathered if collective == "gather" else reverse(gathered)


def _gather(collective: str, inner: ScheduleBuilder, outer: ScheduleBuilder, members: Members, root: int) -> Schedule:
    """The gather through the leaders of groups; by algorithms for `collective`, a scatter's backwards."""

    def built(builder: ScheduleBuilder, ranks: int, at: int) -> Schedule:
        schedule = in_place(builder.build(collective, ranks, at))
        return _by_blocks(schedule if collective == "gather" else reverse(schedule))

    heads = [int(np.flatnonzero(ranks == root)[0]) if root in ranks else 0 for ranks in members]
    leaders = np.array([ranks[head] for ranks, head in zip(members, heads, strict=True)])
    top = next(at for at, ranks in enumerate(members) if root in ranks)
    between = built(outer, len(members), top)
    inside = [built(inner, len(ranks), head) for ranks, head in zip(members, heads, strict=True)]
    unit = lcm(*(s.chunks // s.ranks for s in (between, *inside)))
    home = [
        _gathered(schedule, ranks, list(ranks[:, None]), unit) for schedule, ranks in zip(inside, members, strict=True)
    ]
    rows = by_round(home), _gathered(between, leaders, members, unit)
    blocks = tuple(Block(part) for part in rows if len(part))
    ranks = sum(map(len, members))
    return Schedule(f"{inner.name}+{outer.name}", "gather", ranks, ranks * unit, blocks, root)


def _all_gather(inner: ScheduleBuilder, outer: ScheduleBuilder, members: Members) -> Schedule:
    """Between hosts, the ranks of index k in their hosts gather their blocks; in a host of fewer ranks, rank k modulo
    their number receives them. Then every host gathers what its ranks have received."""
    sizes = [len(ranks) for ranks in members]
    between = _by_blocks(outer.build("all_gather", len(members)))
    inside = {c: _by_blocks(inner.build("all_gather", c)) for c in sizes if c > 1}
    unit = lcm(*(s.chunks // s.ranks for s in (between, *inside.values())))
    across, home = list[Transfers](), list[Transfers]()
    for k in range(max(sizes)):
        own = [ranks[k : k + 1] for ranks in members]  # none in a host of fewer ranks
        across.append(_gathered(between, np.array([ranks[k % len(ranks)] for ranks in members]), own, unit))
    for at, there in enumerate(members):  # the blocks of a host in rounds of their own: fewer messages wait in slots
        for c, schedule in inside.items():
            received = [there[j::c] for j in range(c)]
            rows = [_gathered(schedule, ranks, received, unit) for ranks in members if len(ranks) == c]
            home += [later(part, at * schedule.rounds) for part in rows]
    blocks = tuple(Block(rows) for rows in (by_round(across), by_round(home)) if len(rows))
    ranks = sum(sizes)
    return Schedule(f"{inner.name}+{outer.name}", "all_gather", ranks, ranks * unit, blocks)


def _by_blocks(schedule: Schedule) -> Schedule:
    """The schedule in place, one chunk a row; ValueError where it moves a chunk by way of another position."""
    rows = single(in_place(schedule).expand())
    data = (rows.source_buffer == Buffer.DATA) & (rows.target_buffer == Buffer.DATA)
    if not np.all(data & (rows.source_chunk == rows.target_chunk)):
        raise ValueError(f"nest: {schedule.name} moves blocks by way of scratch; blocks of unequal lengths do not fit")
    return replace(schedule, blocks=(Block(rows),))


def _gathered(schedule: Schedule, ranks: Indices, blocks: list[Indices], unit: int) -> Transfers:
    """The schedule's rows for these ranks, of which rank r begins with blocks[r] of the whole, `unit` chunks each."""
    rows, size = schedule.blocks[0].rows, schedule.chunks // schedule.ranks
    pieces: list[Indices] = []  # by chunk of the schedule, its chunks on the whole
    for mine in blocks:
        chunks = (np.sort(mine)[:, None] * unit + np.arange(unit)).reshape(-1)
        pieces += np.split(chunks, size)
    lengths = np.array([len(piece) for piece in pieces])
    starts = np.cumsum(lengths) - lengths
    chunk = rows.source_chunk
    index = np.arange(len(rows)).repeat(lengths[chunk])
    within = np.arange(len(index)) - (np.cumsum(lengths[chunk]) - lengths[chunk])[index]
    whole = np.concatenate(pieces)[starts[chunk[index]] + within]
    return joined(Transfers.of(ranks[rows.source[index]], ranks[rows.target[index]], whole, round=rows.round[index]))
