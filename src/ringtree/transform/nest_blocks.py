"""Hierarchical composition of collectives that move blocks and add nothing up, over groups of any ranks and sizes."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

import numpy as np

from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform.one_buffer import in_place
from ringtree.transform.phases import Indices, Members, ScheduleBuilder
from ringtree.transform.rows import by_round, joined, later, single


def nest_all_gather(inner: ScheduleBuilder, outer: ScheduleBuilder, members: Members) -> Schedule:
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
    """The all_gather in place, one chunk a row; ValueError where it moves a chunk by way of another position."""
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
