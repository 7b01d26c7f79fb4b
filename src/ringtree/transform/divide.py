"""Cutting: chunks, one piece after the other (pipeline) or side by side (channels, share); transfers (split)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ringtree.ir.schedule import Block, Schedule, Shift, Transfers
from ringtree.transform.rows import alike, by_round, cut, expand_block, later, move, parts, single

MOST_CHUNKS = (1 << 31) - 1
"""The most chunks of a schedule: its columns are of 32 bits."""


def pipeline(schedule: Schedule, pieces: int) -> Schedule:
    """Cuts each chunk into `pieces` and does every block piece by piece.

    A block without repetition in which every rank takes part in at most two consecutive rounds (it receives and
    forwards: a chain, a tree) becomes that block repeated once per piece; a ring's block becomes `pieces` times as many
    repetitions of the same rows. They overlap, because rounds are not barriers: a rank forwards a piece while the next
    one arrives. In other blocks a rank would finish a piece before it starts the next. So these are skewed: each of
    their rounds runs in one round, on a piece of its own. That is one more repeated block, of one round, and the
    beginning and the end written out: O(rows * min(pieces, rounds)).
    """
    _expect_few(schedule, pieces, "pieces")
    if pieces == 1:
        return schedule
    blocks = tuple(piped for b in schedule.blocks for piped in _pipelined(schedule, b, pieces))
    return replace(schedule, chunks=schedule.chunks * pieces, scratch=schedule.scratch * pieces, blocks=blocks)


def _pipelined(schedule: Schedule, block: Block, pieces: int) -> tuple[Block, ...]:
    shift = block.shift
    if shift.source or shift.target:
        # The senders shift: repeated whole for every piece, as otherwise a hop of such a chain would hold all pieces.
        block = expand_block(schedule, block)
        shift = block.shift
    rows = single(block.rows)
    if block.times == 1:
        if _longest_part(rows) <= 2:
            return (Block(_share(rows, pieces, 0), pieces, Shift.chunk(1)),)
        return _skewed(rows, block.rounds, pieces)
    by = shift.source_chunk
    if by == shift.target_chunk and by in (1, -1):
        # Repetition k on piece j works on chunk c + by*k at c*pieces + j + by*k*pieces: with the pieces taken in the
        # direction of `by`, one step further each time.
        return (Block(_share(rows, pieces, pieces - 1 if by < 0 else 0), block.times * pieces, shift),)
    unrolled = Transfers.concatenate(later(_share(rows, pieces, j), j * block.rounds) for j in range(pieces))
    return (Block(unrolled, block.times, _widened(shift, pieces)),)


def _longest_part(rows: Transfers) -> int:
    """The greatest number of rounds, over all ranks, from a rank's first to its last, both included."""
    ends = np.concatenate([rows.source, rows.target])
    rounds = np.tile(rows.round, 2)
    first = np.full(int(ends.max(initial=0)) + 1, np.iinfo(np.int32).max, dtype=np.int32)
    last = np.full_like(first, -1)
    np.minimum.at(first, ends, rounds)
    np.maximum.at(last, ends, rounds)
    taking_part = last >= 0
    return int((last - first)[taking_part].max(initial=-1)) + 1


def _skewed(rows: Transfers, rounds: int, pieces: int) -> tuple[Block, ...]:
    """Round k of the rows on piece j runs in round k + j. Pieces touch different chunks, so any order is correct."""
    if pieces < rounds:
        return (Block(_at_once(rows, [(k, j) for k in range(rounds) for j in range(pieces)], pieces)),)
    stages = range(rounds)
    begin = [(k, j) for k in stages for j in range(rounds - 1 - k)]
    middle = [(k, rounds - 1 - k) for k in stages]
    end = [(k, j) for k in stages for j in range(pieces - k, pieces)]
    parts = (
        Block(_at_once(rows, begin, pieces)),
        Block(_at_once(rows, middle, pieces), pieces - rounds + 1, Shift.chunk(1)),
        Block(_at_once(rows, end, pieces)),
    )
    return tuple(b for b in parts if len(b.rows))


def _at_once(rows: Transfers, pairs: list[tuple[int, int]], pieces: int) -> Transfers:
    """The rows of round k on piece j for all these (k, j), in round k + j less the first; oldest piece first."""
    edges = np.searchsorted(rows.round, np.arange(int(rows.round[-1]) + 2))
    start = min((k + j for k, j in pairs), default=0)
    pairs = sorted(pairs, key=lambda kj: (kj[0] + kj[1], kj[1]))
    return Transfers.concatenate(
        later(_share(rows.take(slice(edges[k], edges[k + 1])), pieces, j), j - start) for k, j in pairs
    )


def split(schedule: Schedule, most: int) -> Schedule:
    """Cuts every transfer into transfers of at most `most` chunks in the same round, so that no message is longer."""
    _expect_positive(schedule, most, "chunks a transfer")
    if all(int(b.rows.count.max(initial=1)) <= most for b in schedule.blocks):
        return schedule
    blocks = []
    for b in schedule.blocks:
        index, offset = parts(b.rows.count)
        first = offset % most == 0
        left = b.rows.count[index[first]] - offset[first]
        blocks.append(replace(b, rows=cut(b.rows, index[first], offset[first], np.minimum(left, most))))
    return replace(schedule, blocks=tuple(blocks))


def channels(schedule: Schedule, k: int) -> Schedule:
    """k copies of the schedule side by side in the same rounds, each on its share of every chunk."""
    _expect_few(schedule, k, "channels")
    return share(*[schedule] * k)


def share(*schedules: Schedule) -> Schedule:
    """Different schedules of one collective side by side in the same rounds, each on its share of every chunk.

    Named after the first. Blocks are joined pairwise where they repeat alike, else written out. ValueError: unless all
    are of one collective, ranks, root and switches, and all or none in place.
    """
    if not schedules:
        raise ValueError("share() of no schedule: expected one at least")
    first, k = schedules[0], len(schedules)
    heads = [(s.collective, s.ranks, s.root, s.switches) for s in schedules]
    if any(h != heads[0] for h in heads) or len({s.in_place for s in schedules if s.transfers}) > 1:
        got = ", ".join(f"{s.name} {h} in_place={s.in_place}" for s, h in zip(schedules, heads, strict=True))
        raise ValueError(
            "share() takes schedules of one collective, ranks, root and switches, all in place or none of them: got "
            + got
        )
    if k == 1:
        return first
    equal = alike(*schedules)
    scratch = max(s.scratch for s in equal)
    beside = [s.blocks for s in equal]
    if any(s.scratch != scratch for s in equal) or not _repeat_alike(beside):
        beside = [(Block(s.expand()),) for s in equal]
    blocks = tuple(
        Block(
            by_round([_share(single(b.rows), k, j) for j, b in enumerate(together)]),
            together[0].times,
            _widened(together[0].shift, k),
        )
        for together in zip(*beside, strict=True)
    )
    return replace(first, chunks=equal[0].chunks * k, scratch=scratch * k, blocks=blocks)


def _repeat_alike(beside: list[tuple[Block, ...]]) -> bool:
    """Whether the schedules' first blocks repeat alike, and so their second ones, and so on."""
    if len({len(blocks) for blocks in beside}) > 1:
        return False
    return all(
        len({(b.times, b.shift, b.rounds if b.times > 1 else 0) for b in together}) == 1
        for together in zip(*beside, strict=True)
    )


def _share(rows: Transfers, of: int, j: int) -> Transfers:
    """Rows of single chunks moved to the j-th of the `of` parts of each chunk."""
    return move(rows, rows.source_chunk * of + j, rows.target_chunk * of + j, rows.count)


def _widened(shift: Shift, by: int) -> Shift:
    return shift._replace(source_chunk=shift.source_chunk * by, target_chunk=shift.target_chunk * by)


def _expect_positive(schedule: Schedule, number: int, what: str) -> None:
    if not hasattr(number, "__index__"):
        raise TypeError(f"{schedule.name}: cut into {number!r} {what}; expected a whole number")
    if number < 1:
        raise ValueError(f"{schedule.name}: cut into {number} {what}; expected at least 1")


def _expect_few(schedule: Schedule, number: int, what: str) -> None:
    _expect_positive(schedule, number, what)
    if schedule.chunks * number > MOST_CHUNKS:
        raise ValueError(
            f"{schedule.name}: {schedule.chunks:,} chunks cut into {number:,} {what}; expected at most {MOST_CHUNKS:,} "
            "chunks in all"
        )
