"""The work of each rank in a schedule, round by round, for any size: messages, steps, and chunks moved.

Counted as lowering writes it: in a round a rank first sends, each range copied once into a slot that all its receivers
read, then receives, all messages for one range in one step. A block that repeats is counted once, with its `times`.
Where its ranks wait for one another in a circle, every repetition takes as long as the first; elsewhere (a pipeline's
pieces) the others follow at the pace of the busiest rank, as one row of the whole block.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform.rows import expand_block

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
KINDS = ("messages", "steps", "copied", "fetched", "reduced", "attached")
"""Messages handed over or taken; copies and reductions; chunks of the rank's own that are moved; chunks that a peer
wrote into a slot and this rank reads; chunks that are reduced into others; chunks that this rank reads in a peer's own
memory."""
MESSAGES, STEPS, COPIED, FETCHED, REDUCED, ATTACHED = range(len(KINDS))
STAGED, UNSTAGED, READ, WRITTEN = range(4)
"""The way of a row's bytes: through a slot; by a copy out of the sender's own memory; read where they lie in memory
that all ranks reach; written by the sender into the receiver's array there."""
CROSSED, SERVED = len(KINDS), len(KINDS) + 1
"""Chunks that a rank reads from other NUMA nodes, and chunks that ranks of other nodes read from it."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """The work of a schedule, counted per rank and kind.

    `work` [rows, ranks, kinds]: consecutive steps, such as the sending and the receiving half of a round; the last
    four kinds in chunks, of which a vector has `chunks`. `times` [rows]: repetitions of each row. `synchronizations`:
    waits for a message on the longest path. `mutual`: whether some ranks wait for one another in a circle. `widest`:
    most chunks of a message. `held`: largest size of a rank's input and output arrays together, in whole vectors.

    Where ranks are on several NUMA nodes, `work` has CROSSED as well; `links` [rows, 2 * nodes]: chunks into each node,
    then out of each; `crossings`: synchronizations in which a message crosses."""

    work: Floats
    times: Floats
    chunks: int
    synchronizations: int
    mutual: bool
    widest: int
    held: float
    links: Floats
    crossings: int

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return int(self.work.shape[1])

    @property
    def total(self) -> Floats:
        """[ranks, kinds], all rows together."""
        found: Floats = np.tensordot(self.times, self.work, axes=1)
        return found


def counts(
    schedule: Schedule,
    node_of: tuple[int, ...] = (),
    *,
    single_copy: bool = False,
    in_place: bool = False,
    symmetric: bool = False,
) -> Counts:
    """Counts the work of messages that are staged, or (`single_copy`) that each receiver reads in the sender's memory.
    `node_of`: the NUMA node of each rank where they are on several. `in_place`: of a call whose output holds already
    what no transfer writes. `symmetric`: of a call whose arrays all ranks reach: where each message of a round is
    answered in the next one by the same chunks, the first is read where it lies, and the answer is written into the
    receiver's array. Cost: O(rows of the blocks) in numpy, times its repetitions where a block's ranks move on.
    ValueError for a schedule with switches, which a memory does not have, and where `node_of` is for another number of
    ranks."""
    s = schedule
    if node_of and len(node_of) != s.ranks:
        raise ValueError(f"nodes of {len(node_of)} ranks; expected those of {s.ranks}")
    node = np.unique(node_of, return_inverse=True)[1] if len(set(node_of)) > 1 else np.zeros(0, np.int64)
    if s.switches:
        raise ValueError(f"{s.name} has {s.switches} switches; expected none in shared memory")
    blocks = [expand_block(s, b) if b.shift.source or b.shift.target else b for b in s.blocks if len(b.rows)]
    work, times = [np.zeros((0, s.ranks, len(KINDS) + 2 * (len(node) > 0)))], [np.zeros(0)]
    synchronizations, crossings, widest = 0, 0, 1
    links = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for block, way in zip(blocks, _ways(blocks, s, single_copy, symmetric), strict=True):
        rows = block.rows
        away = rows.source != rows.target
        links.append((rows.source[away].astype(np.int64), rows.target[away].astype(np.int64)))
        far = node[rows.source] != node[rows.target] if len(node) else away[:0]
        halves = _halves(rows, away, far, way, block.rounds, s.ranks)
        waits, crossing = (int(np.count_nonzero(np.bincount(rows.round[each]))) for each in (away, np.flatnonzero(far)))
        widest = max(widest, int(rows.count[away].max(initial=1)))
        if block.times > 1 and not _circular(*links[-1], s.ranks):
            work += [halves, halves.sum(axis=0, keepdims=True)]
            times += [np.ones(len(halves)), np.array([block.times - 1.0])]
            synchronizations += waits
            crossings += crossing
        else:
            work.append(halves)
            times.append(np.full(len(halves), float(block.times)))
            synchronizations += waits * block.times
            crossings += crossing * block.times
    if s.in_place and not in_place and np.any(kept := _kept(s, blocks)):
        _finish(work, times, kept)
    some = {0, s.ranks - 1, s.root or 0}
    held = max(len(s.precondition(rank)) + len(s.postcondition(rank)) for rank in some)
    source, target = (np.concatenate(ends) for ends in zip(*links, strict=True))
    mutual = _circular(source, target, s.ranks)
    done, between = np.concatenate(work), np.zeros((sum(map(len, work)), 0))
    if len(node):
        on = node == np.arange(node.max() + 1)[:, None]
        between = np.concatenate([done[:, :, CROSSED] @ on.T, done[:, :, SERVED] @ on.T], axis=1)
        done = done[:, :, :SERVED]
    also = mutual, widest, held / s.chunks, between, crossings
    return Counts(done, np.concatenate(times), s.chunks, synchronizations, *also)


def _ways(blocks: list[Block], s: Schedule, single_copy: bool, symmetric: bool) -> list[Ints]:
    """The way of each row's bytes, by block."""
    ways = [np.full(len(block.rows), UNSTAGED if single_copy else STAGED) for block in blocks]
    if not symmetric:
        return ways
    rounds = []
    for block, way in zip(blocks, ways, strict=True):
        away = block.rows.source != block.rows.target
        each = (np.flatnonzero(away & (block.rows.round == k)) for k in range(block.rounds))
        rounds += [(block, way, at) for at in each if len(at)]
    for (block, way, at), (after, its_way, back) in pairwise(rounds):
        asked, answers = block.rows, after.rows
        there = asked.source[at], asked.target[at], asked.target_chunk[at], asked.count[at]
        and_back = answers.target[back], answers.source[back], answers.source_chunk[back], answers.count[back]
        if block.times == after.times == 1 and _same_rows(there, and_back):
            way[at], its_way[back] = READ, WRITTEN
    return ways


def _same_rows(some: tuple[NDArray[np.int32], ...], others: tuple[NDArray[np.int32], ...]) -> bool:
    """Whether columns have the same rows, in any order."""
    one, other = (np.stack(columns)[:, np.lexsort(columns)] for columns in (some, others))
    return np.array_equal(one, other)


def _halves(
    rows: Transfers, away: NDArray[np.bool_], far: NDArray[np.bool_], way: Ints, rounds: int, ranks: int
) -> Floats:
    """[2 * rounds, ranks, kinds]: each round's sending half, then its receiving half. `far`: the rows between nodes,
    empty where there is one. `way`: of each row's bytes, as _ways returns it."""
    work = np.zeros((rounds, 2, ranks, len(KINDS) + 2 * (len(far) > 0)))
    size = rounds * ranks

    def tally(half: int, kind: int, at: Ints, weights: NDArray[np.generic] | None = None) -> None:
        work[:, half, :, kind] += np.bincount(at, weights, size).reshape(rounds, ranks)

    start = rows.round.astype(np.int64) * ranks
    sent, got, count = start + rows.source, start + rows.target, rows.count
    tally(0, MESSAGES, sent[away])
    staged = np.flatnonzero(away & (way == STAGED))
    once = staged[_first(sent[staged], rows.source_buffer[staged], rows.source_chunk[staged], count[staged])]
    here = np.concatenate([once, np.flatnonzero(way == WRITTEN)])
    tally(0, STEPS, sent[here])
    tally(0, COPIED, sent[here], count[here])
    tally(1, MESSAGES, got, away)
    tally(1, ATTACHED, got, count * (away & (way == UNSTAGED)))
    tally(1, FETCHED, got, count * (away & (way != UNSTAGED) & (way != WRITTEN)))
    tally(1, REDUCED, got, count * rows.reduce)
    if not away.all():
        tally(1, COPIED, got, count * ~away / 2)  # a copy is half reading, half writing
    left = np.flatnonzero(way != WRITTEN)
    once = left[_first(got[left], rows.target_buffer[left], rows.target_chunk[left], count[left])]
    tally(1, STEPS, got[once])
    tally(1, COPIED, got[once], count[once] * (1 + rows.reduce[once]) / 2)
    if len(far):
        tally(1, CROSSED, got, count * far)
        tally(1, SERVED, start + rows.source, count * far)
    return work.reshape(2 * rounds, ranks, -1)


def _first(at: Ints, buffer: NDArray[np.int32], chunk: NDArray[np.int32], count: NDArray[np.int32]) -> Ints:
    """The first row of each group of equal rows. A sort of one key: np.unique of columns takes ten times as long, and
    its first call loads numpy.ma."""
    if not len(at):
        return np.zeros(0, np.int64)
    key = (at * len(Buffer) + buffer) * (int(chunk.max()) + 1) + chunk
    key = key * (int(count.max()) + 1) + count
    order = np.argsort(key, kind="stable")
    key = key[order]
    found: Ints = order[np.concatenate([[True], key[1:] != key[:-1]])]
    return found


def _kept(s: Schedule, blocks: list[Block]) -> Floats:
    """Returns [ranks] chunks of the output that no transfer writes: copied from input to output at the end."""
    edge = np.zeros(s.ranks * (s.chunks + 1), np.int64)
    for block in blocks:
        rows, times = block.rows, 1 if not block.shift.target_chunk else block.times
        data = rows.target_buffer == Buffer.DATA
        moved = np.arange(times)[:, None] * block.shift.target_chunk
        start = rows.target[data].astype(np.int64) * (s.chunks + 1)
        first = (rows.target_chunk[data] + moved) % s.chunks
        edge += np.bincount((start + first).ravel(), minlength=len(edge))
        edge -= np.bincount((start + first + rows.count[data]).ravel(), minlength=len(edge))
    bare = np.cumsum(edge.reshape(s.ranks, -1), axis=1) == 0
    before = np.cumsum(bare, axis=1) - bare
    rank = np.arange(s.ranks)
    postconditions = [s.postcondition(r) for r in range(s.ranks)]
    found: Floats = (
        before[rank, [w.stop for w in postconditions]] - before[rank, [w.start for w in postconditions]] + 0.0
    )
    return found


def _finish(work: list[Floats], times: list[Floats], kept: Floats) -> None:
    """Adds copies to the last receiving half, once; without any, they are a row of their own."""
    if len(work) == 1:
        work.append(np.zeros((1, *work[0].shape[1:])))
        times.append(np.ones(1))
    last = len(work) - 1 if len(work[-1]) > 1 or len(work) == 2 else len(work) - 2  # a pace row ends with its block
    if times[last][-1] > 1:  # the last repetition apart
        times[last][-1] -= 1
        work.append(work[last][-1:].copy())
        times.append(np.ones(1))
        last = -1
    work[last][-1, :, COPIED] += kept


def _circular(source: Ints, target: Ints, ranks: int) -> bool:
    """Whether messages form a cycle of ranks: whether links remain after those that begin at a rank without incoming
    links, or end at a rank without outgoing links, are removed again and again."""
    while len(source):
        fed, feeds = np.bincount(target, minlength=ranks) > 0, np.bincount(source, minlength=ranks) > 0
        left = fed[source] & feeds[target]
        if left.all():
            return True
        source, target = source[left], target[left]
    return False
