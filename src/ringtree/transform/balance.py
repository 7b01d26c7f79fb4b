"""Balancing: a reduction of many contributions at once becomes a balanced tree of reductions of two.

The tree over k contributions, in their listed order, splits before the largest power of two that is less than k. So
the sum of contributions i * 2**j to (i+1) * 2**j is one of its nodes, for every i and j.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform.rows import expand_block, later

Range = tuple[int, int, int, int]  # rank, buffer, chunk, count


def balance(schedule: Schedule) -> Schedule:
    """Every reduction of more than two contributions to one range in one round becomes that tree. The messages stay;
    the receiver joins them in pairs into scratch, and the sums of pairs in rounds without messages, lg(k) - 1 of them
    for k contributions. The schedule itself where no reduction has more than two.

    A range that overlaps another one of its round is left as it is. Cost: O(transfers) in Python.
    """
    blocks, scratch = list[Block](), schedule.scratch
    for block in schedule.blocks:
        found = any(_reductions(rows) for rows in block.rows.by_round())
        rows, used = _balanced(expand_block(schedule, block).rows, schedule.scratch) if found else (None, 0)
        blocks.append(block if rows is None else Block(rows))
        scratch = max(scratch, used)
    return replace(schedule, blocks=tuple(blocks), scratch=scratch) if scratch > schedule.scratch else schedule


def _balanced(rows: Transfers, first: int) -> tuple[Transfers, int]:
    """The rows of a block, and the chunks of scratch that they need, of which those from `first` on were free."""
    parts, added, most = list[Transfers](), 0, first
    for at_once in rows.by_round():
        found = _reductions(at_once)
        parts.append(later(_in_pairs(at_once, found, first), added))
        round = int(at_once.round[0]) + added
        joins, used = _joins(at_once, found, first)
        parts += [later(step, round + k + 1) for k, step in enumerate(joins)]
        added, most = added + len(joins), max(most, used)
    return Transfers.concatenate(parts), most


def _reductions(rows: Transfers) -> dict[Range, list[int]]:
    """The reductions of one round that have more than two contributions: the rows of each, in their order."""
    ranges = zip(
        rows.target.tolist(), rows.target_buffer.tolist(), rows.target_chunk.tolist(), rows.count.tolist(), strict=True
    )
    writes = defaultdict[Range, list[int]](list)
    for i, written in enumerate(ranges):
        writes[written].append(i)
    found = {
        written: members
        for written, members in writes.items()
        if len(members) + bool(rows.reduce[members[0]]) > 2 and rows.reduce[members[1:]].all()
    }
    if not found:
        return {}
    beside = defaultdict[tuple[int, int], list[Range]](list)
    for written in writes:
        beside[written[:2]].append(written)
    return {w: members for w, members in found.items() if not any(_overlap(w, o) for o in beside[w[:2]] if o != w)}


def _in_pairs(rows: Transfers, found: dict[Range, list[int]], first: int) -> Transfers:
    """One round's rows: what these reductions add up goes to scratch, a pair of contributions to each chunk."""
    buffer, chunk, reduce = rows.target_buffer.copy(), rows.target_chunk.copy(), rows.reduce.copy()
    own, before = list[Transfers](), list[int]()  # the target's own contribution, and the row that it goes before
    for (rank, at, start, count), members, scratch in _placed(rows, found, first):
        mine = bool(rows.reduce[members[0]])
        place = np.arange(len(members)) + mine
        buffer[members], chunk[members], reduce[members] = Buffer.SCRATCH, scratch + place // 2 * count, place % 2 == 1
        if mine:
            ends = {"source_buffer": at, "target_buffer": Buffer.SCRATCH, "to": scratch, "count": count}
            own.append(Transfers.of(rank, rank, start, round=int(rows.round[0]), **ends))
            before.append(members[0])
    paired = replace(rows, target_buffer=buffer, target_chunk=chunk, reduce=reduce)
    order = np.argsort([*(2 * i + 1 for i in range(len(rows))), *(2 * i for i in before)], kind="stable")
    return Transfers.concatenate([paired, *own]).take(order)


def _joins(rows: Transfers, found: dict[Range, list[int]], first: int) -> tuple[list[Transfers], int]:
    """The rounds that join the pairs' sums, level by level, the last two into the range; and the scratch in use."""
    levels, most = defaultdict[int, list[Transfers]](list), first
    for (rank, at, start, count), members, scratch in _placed(rows, found, first):
        pairs = (len(members) + bool(rows.reduce[members[0]]) + 1) // 2
        sums, level = [scratch + k * count for k in range(pairs)], 0
        most = max(most, scratch + pairs * count)
        ends = {"source_buffer": Buffer.SCRATCH, "count": count}
        while len(sums) > 2:
            left, right = sums[: len(sums) // 2 * 2 : 2], sums[1::2]
            levels[level].append(
                Transfers.of(rank, rank, right, to=left, reduce=True, target_buffer=Buffer.SCRATCH, **ends)
            )
            sums, level = sums[::2], level + 1
        levels[level].append(Transfers.of(rank, rank, sums, to=start, reduce=[False, True], target_buffer=at, **ends))
    return [Transfers.concatenate(levels[k]) for k in sorted(levels)], most


def _placed(rows: Transfers, found: dict[Range, list[int]], first: int) -> list[tuple[Range, list[int], int]]:
    """Each reduction, its rows, and its first chunk of the target's scratch."""
    free = defaultdict[int, int](lambda: first)
    placed = []
    for written, members in found.items():
        rank, count = written[0], written[3]
        placed.append((written, members, free[rank]))
        free[rank] += (len(members) + bool(rows.reduce[members[0]]) + 1) // 2 * count
    return placed


def _overlap(a: Range, b: Range) -> bool:
    return a[2] < b[2] + b[3] and b[2] < a[2] + a[3]
