"""Hierarchical composition: one algorithm inside groups of ranks, another between the groups."""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from ringtree.transform.nest_blocks import BLOCKWISE, nest_blocks
from ringtree.transform.one_buffer import in_place
from ringtree.transform.phases import INSIDE, Indices, Phase, ScheduleBuilder, nesting_of
from ringtree.transform.rows import expand_block, fuse, single


def nest(
    collective: str, inner: ScheduleBuilder, outer: ScheduleBuilder, ranks: int, group: int, root: int | None = None
) -> Schedule:
    """The schedule of `collective` over `ranks` ranks in groups of `group` consecutive ones: `inner` in each, `outer`
    between them. ValueError: if `group` does not divide `ranks`.

    all_reduce: each group reduce-scatters; ranks of the same index all-reduce their shard; each group all-gathers.
    Where inner does not serve these, each group reduces to its first rank, the first ranks all-reduce, each broadcasts.
    broadcast and reduce go through the ranks that have the root's index; gather, scatter and all_to_all as in
    nest_blocks. The vector is cut into as many chunks as
    both need. Groups of other ranks than consecutive ones, or of unequal sizes: nest_in_hosts.
    """
    if ranks < 1 or group < 1 or ranks % group:
        raise ValueError(f"nest: groups of {group} do not divide {ranks} ranks; expected a divisor of {ranks}")
    nesting = nesting_of(collective, inner, outer)
    if collective in BLOCKWISE:
        return nest_blocks(collective, inner, outer, list(np.arange(ranks).reshape(-1, group)), root)
    groups = ranks // group
    at_group, at_index = divmod(root or 0, group)
    phases = []
    for where, what in nesting:
        builder, size = (inner, group) if where is INSIDE else (outer, groups)
        rooted = what in ("broadcast", "reduce")
        at = (at_index if where is INSIDE else at_group) if rooted else None
        phases.append((where, in_place(builder.build(what, size, at)) if size > 1 else None))
    layout = _layout(nesting, [p for _, p in phases], group, groups, at_index)
    placed = [layout.put(p, where) for where, p in phases if p is not None]
    blocks = tuple(b for part, _ in placed for b in part)
    return Schedule(
        f"{inner.name}+{outer.name}",
        collective,
        ranks,
        layout.chunks,
        fuse(blocks) if collective in ("broadcast", "reduce") else blocks,  # one block: so all of it pipelines
        root,
        max((scratch for _, scratch in placed), default=0),
    )


class _Layout(NamedTuple):
    """The ranks and positions of the whole in a phase.

    inside: every group, on `runs` runs of chunks. between: the ranks whose index in the group is in `indices`.
    """

    group: int
    groups: int
    chunks: int
    unit: int  # chunks that one rank of a blocked phase owns
    indices: Indices  # the ranks of a group that take part between groups
    strided: bool  # shards are a block of every group's, else contiguous
    sharded: bool  # each index has a shard of its own, else all of the vector

    def put(self, schedule: Schedule, where: str) -> tuple[tuple[Block, ...], int]:
        """The phase's blocks on the whole, and the scratch chunks they need."""
        ranks = np.arange(schedule.ranks, dtype=np.int64)
        chunk = np.arange(schedule.chunks, dtype=np.int64)
        if where is INSIDE:
            renamed = np.arange(self.groups)[:, None] * self.group + ranks
            runs = self.groups if self.strided else 1
            width = self.chunks // runs // schedule.chunks
            first = chunk * width + np.arange(runs)[:, None] * (self.group * self.unit)
            positions = np.broadcast_to(first, (self.groups, runs, schedule.chunks))
            step, turn = width, 0
        else:
            renamed = self.indices[:, None] + ranks * self.group
            step, turn = 0, self.group
            if self.strided:
                per = schedule.chunks // self.groups
                width = self.unit // per
                first = chunk // per * (self.group * self.unit) + chunk % per * width
                step = self.group * self.unit if per == 1 else 0
            else:
                width = self.chunks // (self.group if self.sharded else 1) // schedule.chunks
                first = chunk * width
                step = 0 if self.sharded else width
            shard = self.indices * (self.unit if self.sharded else 0)
            positions = (first + shard[:, None])[:, None, :]
        even = where is INSIDE or not self.strided or self.group == 1
        embedding = _Embedding(renamed, positions, width, step, turn, even, schedule.scratch)
        blocks = tuple(embedding.block(schedule, b) for b in schedule.blocks)
        return blocks, schedule.scratch * width * positions.shape[1]


def _layout(
    nesting: tuple[Phase, ...], phases: list[Schedule | None], group: int, groups: int, at_index: int
) -> _Layout:
    names = {what for _, what in nesting}
    blocked = bool(names & {"reduce_scatter", "all_gather"})
    strided = blocked and "all_reduce" not in names
    chunks = [s.chunks for s in phases if s is not None]
    owned = [s.chunks // s.ranks if s.promise.blocked else s.chunks for s in phases if s is not None]
    if not blocked:
        return _Layout(group, groups, lcm(*chunks), 1, np.array([at_index]), strided=False, sharded=False)
    unit = lcm(*owned)
    whole = unit * group * (groups if strided else 1)
    return _Layout(group, groups, whole, unit, np.arange(group), strided=strided, sharded=True)


class _Embedding(NamedTuple):
    """Copies of a schedule on the whole: axes are (copy, run) for positions, (copy) for ranks.

    `step` and `turn`: the shift of the whole where the schedule shifts by one chunk, by one rank; 0 if no single number
    expresses it, so that the block is written out.
    """

    ranks: Indices
    positions: Indices
    width: int
    step: int
    turn: int
    even: bool  # whether a chunk's neighbour is its neighbour on the whole
    scratch: int

    def block(self, schedule: Schedule, block: Block) -> Block:
        s = block.shift
        still = not (s.source or s.target or s.source_chunk or s.target_chunk)
        if not still and not self._moves(block):
            block = expand_block(schedule, block)
        rows = block.rows
        if not self.even:
            rows = single(rows)  # neighbours in the schedule are not neighbours on the whole
        spread = (len(rows), *self.positions.shape[:2])

        def column(x: NDArray[np.int32] | Indices | NDArray[np.bool_]) -> NDArray[np.int64]:
            wide = x if x.ndim == 3 else x.reshape(len(rows), -1, 1)
            return np.broadcast_to(wide, spread).reshape(-1).astype(np.int64)

        placed = Transfers.of(
            column(self.ranks[:, rows.source].T),
            column(self.ranks[:, rows.target].T),
            column(self._chunks(rows.source_buffer, rows.source_chunk)),
            to=column(self._chunks(rows.target_buffer, rows.target_chunk)),
            count=column(rows.count) * self.width,
            reduce=column(rows.reduce),
            round=column(rows.round),
            source_buffer=column(rows.source_buffer),
            target_buffer=column(rows.target_buffer),
        )
        s, turn, step = block.shift, self.turn, self.step
        turned = Shift(s.source * turn, s.target * turn, s.source_chunk * step, s.target_chunk * step)
        return Block(placed, block.times, turned)

    def _moves(self, block: Block) -> bool:
        """Whether the block's shift can be expressed on the whole."""
        s, rows = block.shift, block.rows
        if (s.source or s.target) and not self.turn:
            return False
        if not (s.source_chunk or s.target_chunk):
            return True
        # Runs stay together only where a row keeps its position on the vector.
        stays = s.source_chunk == s.target_chunk and np.array_equal(rows.source_chunk, rows.target_chunk)
        data = np.all(rows.source_buffer == Buffer.DATA) and np.all(rows.target_buffer == Buffer.DATA)
        return bool(self.step and stays and data)

    def _chunks(self, buffer: NDArray[np.int32], chunk: NDArray[np.int32]) -> Indices:
        """First chunk on the whole, axes (row, copy, run)."""
        scratch = buffer == Buffer.SCRATCH
        data = self.positions[:, :, np.where(scratch, 0, chunk)].transpose(2, 0, 1)
        run = np.arange(self.positions.shape[1], dtype=np.int64) * (self.scratch * self.width)
        aside = chunk[:, None, None].astype(np.int64) * self.width + run
        return np.where(scratch[:, None, None], aside, data)
