"""Gathering reductions: additions of several rounds to one range are done together in the last of these rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ringtree.ir.schedule import Block, Schedule, Transfers

Range = tuple[int, int, int, int]  # rank, buffer, chunk, count


def many_source(schedule: Schedule) -> Schedule:
    """Moves reductions into one range to the round of the last of them, so that lowering makes them one reduction of
    many sources: the range is read and written once, not once a source. The schedule itself where nothing can move.

    A reduction is moved only without other effects: meanwhile no row reads the range or writes it otherwise, and its
    sender has no other row. Blocks that repeat stay as they are. The order of the additions to a range is kept. Cost:
    O(rows * rows of a rank) in Python.
    """
    blocks = tuple(_gathered(b) if b.times == 1 else b for b in schedule.blocks)
    if all(a is b for a, b in zip(blocks, schedule.blocks, strict=True)):
        return schedule
    return replace(schedule, blocks=blocks)


def _gathered(block: Block) -> Block:
    rows = block.rows
    if not _several_rounds(rows):
        return block
    round_ = rows.round.tolist()
    moved = list(round_)
    reads, writes = (_ranges(rows, side) for side in ("source", "target"))
    parts = defaultdict[int, list[int]](list)  # by rank: the rows it takes part in
    for i, (read, write) in enumerate(zip(reads, writes, strict=True)):
        for rank in {read[0], write[0]}:
            parts[rank].append(i)
    ranges = defaultdict[Range, list[int]](list)
    for i in np.flatnonzero(rows.reduce & (rows.source != rows.target)).tolist():
        ranges[writes[i]].append(i)
    for target, members in ranges.items():
        last = members[-1]
        for i in reversed(members[:-1]):
            between = (k for k in parts[target[0]] if k != i and round_[i] <= round_[k] <= round_[last])
            if (
                round_[i] == round_[last]
                or _observed(i, last, target, between, (round_, reads, writes), set(members))
                or _busy(i, last, parts[reads[i][0]], (round_, reads, writes))
            ):
                last = i
            else:
                moved[i] = round_[last]
    if moved == round_:
        return block
    order = np.lexsort((np.arange(len(rows)), moved))
    closed = np.unique(moved, return_inverse=True)[1].reshape(-1)[order].astype(np.int32)  # no round is left empty
    return Block(replace(rows.take(order), round=closed))


def _several_rounds(rows: Transfers) -> bool:
    """Whether several rounds add to one range: a quick test in columns, before the slower search in Python."""
    adds = rows.take(rows.reduce & (rows.source != rows.target))
    if not len(adds) or adds.round[0] == adds.round[-1]:
        return False
    key = adds.target.astype(np.int64)
    for column in (adds.target_buffer, adds.target_chunk, adds.count):
        key = key * (int(column.max()) + 1) + column
    order = np.argsort(key, kind="stable")  # rounds stay in order
    again = key[order][1:] == key[order][:-1]
    return bool(np.any(again & (adds.round[order][1:] != adds.round[order][:-1])))


_Columns = tuple[list[int], list[Range], list[Range]]


def _observed(i: int, last: int, target: Range, between: Iterable[int], columns: _Columns, same: set[int]) -> bool:
    """Whether a row reads the range, or writes it otherwise, after row i and before row `last` is done."""
    round_, reads, writes = columns
    for k in between:
        if round_[k] > round_[i] and _overlap(reads[k], target):
            return True
        if i < k < last and k not in same and _overlap(writes[k], target):
            return True
    return False


def _busy(i: int, last: int, parts: Iterable[int], columns: _Columns) -> bool:
    """Whether the sender of row i has a row after that round until row `last`, or is its receiver."""
    round_, reads, writes = columns
    return any(
        round_[i] < round_[k] <= round_[last] or (round_[k] == round_[i] and _overlap(writes[k], reads[i]))
        for k in parts
        if k != i
    )


def _ranges(rows: Transfers, side: str) -> list[Range]:
    columns = (getattr(rows, side), getattr(rows, f"{side}_buffer"), getattr(rows, f"{side}_chunk"), rows.count)
    return list(zip(*(c.tolist() for c in columns), strict=True))


def _overlap(a: Range, b: Range) -> bool:
    return a[:2] == b[:2] and a[2] < b[2] + b[3] and b[2] < a[2] + a[3]
