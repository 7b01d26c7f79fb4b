"""Cutting chunks: one piece after the other (pipeline), or side by side (channels, share)."""

from __future__ import annotations

from dataclasses import replace

from ringtree.ir.schedule import Block, Schedule, Shift, Transfers
from ringtree.transform.rows import alike, by_round, expand_block, later, move, single


def pipeline(schedule: Schedule, pieces: int) -> Schedule:
    """Cuts each chunk into `pieces` and does every block piece by piece.

    A block that is done once (a chain, a tree, a round of exchanges) becomes that block repeated once per piece; a
    ring's block becomes `pieces` times as many repetitions of the same rows. Both overlap, because rounds are not
    barriers: a rank passes a piece on while the next one comes.
    """
    _expect_positive(schedule, pieces, "pieces")
    if pieces == 1:
        return schedule
    blocks = tuple(_pipelined(schedule, b, pieces) for b in schedule.blocks)
    return replace(schedule, chunks=schedule.chunks * pieces, scratch=schedule.scratch * pieces, blocks=blocks)


def _pipelined(schedule: Schedule, block: Block, pieces: int) -> Block:
    shift = block.shift
    if shift.source or shift.target:
        # Who sends moves on: done piece by piece as a whole, else a chain written so would hold all pieces at a hop.
        block = expand_block(schedule, block)
        shift = block.shift
    rows = single(block.rows)
    if block.times == 1:
        return Block(_share(rows, pieces, 0), pieces, Shift.chunk(1))
    by = shift.source_chunk
    if by == shift.target_chunk and by in (1, -1):
        # Repetition k on piece j works on chunk c + by*k at c*pieces + j + by*k*pieces: with the pieces taken in the
        # direction of `by`, one step further each time.
        return Block(_share(rows, pieces, pieces - 1 if by < 0 else 0), block.times * pieces, shift)
    unrolled = Transfers.concatenate(later(_share(rows, pieces, j), j * block.rounds) for j in range(pieces))
    return Block(unrolled, block.times, _widened(shift, pieces))


def channels(schedule: Schedule, k: int) -> Schedule:
    """k copies of the schedule side by side in the same rounds, each on its share of every chunk."""
    _expect_positive(schedule, k, "channels")
    return share(*[schedule] * k)


def share(*schedules: Schedule) -> Schedule:
    """Different schedules of one collective side by side in the same rounds, each on its share of every chunk.

    Named after the first. Blocks are joined pairwise where they repeat alike, else written out.
    """
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
    return replace(shift, source_chunk=shift.source_chunk * by, target_chunk=shift.target_chunk * by)


def _expect_positive(schedule: Schedule, number: int, what: str) -> None:
    if number < 1:
        raise ValueError(f"{schedule.name}: cut into {number} {what}; expected at least 1")
