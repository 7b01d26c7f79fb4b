"""The rules of a legal schedule, for any collective. `verify` checks its result; this module checks its form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.ranges import least_overlapping
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

ROWS_AT_ONCE = 1 << 18
"""Rows of the repetitions that are checked together."""


class ScheduleError(ValueError):
    """A schedule that breaks the rules of the IR. The message has block, row, the value found and the expected one."""


def check(schedule: Schedule) -> None:
    """Checks the schedule. ScheduleError: at the first rule broken. Cost: O(rows), times the repetitions for counts
    over 1."""
    s, promise = schedule, schedule.promise
    if s.ranks < 1:
        raise ScheduleError(f"{s.name}: {s.ranks} ranks; expected at least 1")
    if s.chunks < 1 or (promise.blocked and s.chunks % s.ranks):
        rule = f"a positive multiple of its {s.ranks} ranks" if promise.blocked else "at least 1"
        raise ScheduleError(f"{s.name}: {s.chunks} chunks; {s.collective} expects {rule}")
    if promise.rooted != (s.root is not None) or (s.root is not None and not 0 <= s.root < s.ranks):
        rule = f"a root in 0..{s.ranks - 1}" if promise.rooted else "no root"
        raise ScheduleError(f"{s.name}: root {s.root}; {s.collective} expects {rule}")
    for number, block in enumerate(s.blocks):
        _check_block(s, number, block)
    used = {
        x for b in s.blocks for buffer in (b.rows.source_buffer, b.rows.target_buffer) for x in set(buffer.tolist())
    }
    if Buffer.DATA in used and used & {Buffer.INPUT, Buffer.OUTPUT}:
        raise ScheduleError(f"{s.name}: uses DATA and INPUT or OUTPUT; expected one view or the other")


def _check_block(s: Schedule, number: int, block: Block) -> None:
    rows = block.rows

    def refuse_where(bad: NDArray[np.bool_], problem: str) -> None:
        if np.any(bad):
            i = int(np.flatnonzero(bad)[0])
            raise ScheduleError(f"{s.name}: block {number}, row {i} ({describe(rows, i)}): {problem}")

    if block.times < 1:
        raise ScheduleError(f"{s.name}: block {number} is repeated {block.times} times; expected at least 1")
    refuse_where(np.diff(rows.round, prepend=0) < 0, "its round is before the row above; rounds never decrease")
    refuse_where(rows.count < 1, "counts no chunk; expected at least 1")
    for ranks in (rows.source, rows.target):
        refuse_where((ranks < 0) | (ranks >= s.participants), f"no such rank; expected 0..{s.participants - 1}")
    refuse_where(rows.target_buffer == Buffer.INPUT, "writes the input; expected output or scratch")
    for at, buffer in ((rows.source, rows.source_buffer), (rows.target, rows.target_buffer)):
        refuse_where((buffer < 0) | (buffer > 3), "no such buffer")
        refuse_where((at >= s.ranks) & (buffer != Buffer.SCRATCH), "a switch holds scratch only")
    lengths = s.lengths
    ends = (
        (rows.source_buffer, rows.source_chunk, block.shift.source_chunk),
        (rows.target_buffer, rows.target_chunk, block.shift.target_chunk),
    )
    for buffer, chunk, by in ends:
        length = lengths[buffer]
        refuse_where(
            (chunk < 0) | (chunk.astype(np.int64) + rows.count > length),
            f"outside its buffer (data {lengths[0]}, input {lengths[1]}, output {lengths[2]}, scratch {lengths[3]})",
        )
        if by and block.times > 1:
            refuse_where(_wraps(chunk, rows.count, length, by, block.times), "wraps around its buffer in a repetition")
    _check_local_reads(s, number, block)


def _wraps(
    chunk: NDArray[np.int32], count: NDArray[np.int32], length: NDArray[np.int64], by: int, times: int
) -> NDArray[np.bool_]:
    """Whether each row, moved by `by` modulo `length` up to `times` - 1 times, runs over the end of its buffer.

    Once all positions that a row can reach were visited, those are its residue modulo gcd(by, length) and up.
    """
    step = np.gcd(by, length)
    wrapped: NDArray[np.bool_] = chunk % step + count > step
    for row in np.flatnonzero(wrapped & (times < length // step)).tolist():
        at = (int(chunk[row]) + np.arange(times, dtype=np.int64) * by) % int(length[row])
        wrapped[row] = bool(np.any(at + int(count[row]) > length[row]))
    return wrapped


def _check_local_reads(s: Schedule, number: int, block: Block) -> None:
    """A local row reads the round's start: no earlier row of that round may have written its source. Where both ends
    move alike, one repetition stands for all."""
    rows, shift = block.rows, block.shift
    drifts = shift.source - shift.target, shift.source_chunk - shift.target_chunk
    apart = rows.target.astype(np.int64) - rows.source
    moves = (rows.source < s.ranks) & (rows.target < s.ranks)  # switches stay
    local = np.where(moves, apart % np.gcd(drifts[0], s.ranks) == 0, apart == 0)  # in some repetition
    at, many = np.unique(rows.round, return_counts=True)
    if not np.any(np.isin(rows.round[local], at[many > 1])):
        return
    times = block.times if any(drifts) else 1
    batch = max(ROWS_AT_ONCE // len(rows), 1)
    for first in range(0, times, batch):
        some = s.repetitions(block, np.arange(first, min(first + batch, times))) if any(drifts) else rows
        late = _first_late_read(some)
        if late is not None:
            raise ScheduleError(
                f"{s.name}: block {number}, row {late % len(rows)} ({describe(some, late)}): reads a chunk that an "
                "earlier row of its round writes; give it a later round"
            )


def _first_late_read(rows: Transfers) -> int | None:
    """The first local row whose source an earlier row of its round writes; None if there is none."""
    local = rows.source == rows.target
    among = np.flatnonzero(np.isin(rows.round, rows.round[local]))
    reads = np.flatnonzero(local)
    if not len(reads):
        return None

    round_ = np.unique(rows.round, return_inverse=True)[1].astype(np.int64)
    ranks = np.int64(1 + max(rows.source.max(), rows.target.max()))

    def place(side: str, which: NDArray[np.int64]) -> NDArray[np.int64]:
        rank, buffer = getattr(rows, side)[which], getattr(rows, f"{side}_buffer")[which]
        found: NDArray[np.int64] = (round_[which] * ranks + rank) * len(Buffer) + buffer
        return found

    _, at = np.unique(np.concatenate([place("target", among), place("source", reads)]), return_inverse=True)
    start = at * np.int64(2**33)  # chunks and counts are below 2^31: no range reaches the next place
    begin, low = start[: len(among)] + rows.target_chunk[among], start[len(among) :] + rows.source_chunk[reads]
    writer = least_overlapping(begin, begin + rows.count[among], among, low, low + rows.count[reads])
    late = reads[writer < reads]
    return int(late[0]) if len(late) else None


def title(s: Schedule) -> str:
    """The schedule's title in messages."""
    return f"{s.name} {s.collective} over {s.ranks} ranks"


def describe(rows: Transfers, i: int) -> str:
    """Row `i` in words, as messages show it: `round 3: rank 1 data[4] +> rank 2 data[4]`."""
    names = {int(b): b.name.lower() for b in Buffer}

    def chunks_of(rank: int, buffer: int, chunk: int, count: int) -> str:
        span = f"{chunk}" if count == 1 else f"{chunk}:{chunk + count}"
        return f"rank {rank} {names.get(buffer, buffer)}[{span}]"

    n = int(rows.count[i])
    source = chunks_of(int(rows.source[i]), int(rows.source_buffer[i]), int(rows.source_chunk[i]), n)
    target = chunks_of(int(rows.target[i]), int(rows.target_buffer[i]), int(rows.target_chunk[i]), n)
    return f"round {int(rows.round[i])}: {source} {'+>' if rows.reduce[i] else '->'} {target}"
