"""The trees along which chunks flow, found in a schedule's transfers, for every schedule.

Every chunk is followed on symbolic contents: a rank that sends on what it has so far to one other rank only, until the
sum is complete, is below that one in a tree that leads *upward*; a rank that has a complete chunk from one other only
is below that one in a tree that leads downward. Chunks that flow alike are one tree's: a pipelined tree is one tree.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import Reach
from ringtree.ir.contents import Contents, contributors, rounds
from ringtree.ir.moves import Ints, Moves
from ringtree.ir.schedule import Schedule

ROOT = -1
ABSENT = -2
FEW = 2
"""The most different trees that are worth drawing; more are mostly one path, begun at another rank for each chunk."""


@dataclass(frozen=True, slots=True)
class ChunkTree:
    """`parent` of each participant: ROOT, or ABSENT for one that none of the `chunks` reaches. With `upward` chunks go
    from child to parent, as reductions and gathers do. A chunk for one rank only goes along its part of the tree."""

    parent: tuple[int, ...]
    chunks: tuple[int, ...]
    upward: bool


def trees(schedule: Schedule) -> tuple[ChunkTree, ...]:
    """Upward ones first, then by their first chunk. None where some chunk flows otherwise, as in exchanges, or where
    the collective transposes, so that every chunk is for one rank. Cost: as verify.prove's."""
    s = schedule
    if s.promise.transposes:
        return ()
    source, target, chunk, whole = _hops(s)
    up, down = ((source, target), True), ((target, source), False)
    if not s.promise.reduces:
        grown = [_grown(s, *ends, chunk, whole, upward) for ends, upward in (down, up)]
        return min((forest for forest in grown if forest), key=len, default=())
    grown = [_grown(s, *ends, chunk, here, upward) for (ends, upward), here in ((up, ~whole), (down, whole))]
    return () if None in grown else tuple(tree for forest in grown if forest for tree in forest)


def few(found: tuple[ChunkTree, ...]) -> bool:
    """Whether the trees are worth drawing: few different ones, not a path for each chunk."""
    return bool(found) and len(found[0].parent) > 2 and len({t.parent for t in found}) <= FEW


def _hops(s: Schedule) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
    """The moves between participants, as columns: source, target, chunk, whether the chunk was complete."""
    moves = Moves.of(s)
    contents = Contents.at_start(s, moves.layout)
    everyone = contributors(s)[-1]
    label = np.empty(len(moves.row), dtype=np.int64)
    whole = np.ones(len(moves.row), dtype=np.bool_)
    for part in rounds(moves, contents, s.promise.repeats):
        label[part.first : part.last] = part.carried.label
        if s.promise.reduces:
            complete = (part.carried.sets == everyone).all(axis=1)
            whole[part.first : part.last] = complete & (s.promise.reach is Reach.ALL)
    source, target = (column[moves.row].astype(np.int64) for column in (moves.rows.source, moves.rows.target))
    between = (source != target) & (label >= 0)
    return source[between], target[between], label[between] % s.chunks, whole[between]


def _grown(
    s: Schedule, child: Ints, parent: Ints, chunk: Ints, here: NDArray[np.bool_], upward: bool
) -> tuple[ChunkTree, ...] | None:
    """The trees in which `child` is below `parent` for that chunk, of the hops `here`; None where one is no tree."""
    table = np.full((s.chunks, s.participants), ABSENT, dtype=np.int32)
    table[chunk[here], child[here]] = parent[here]
    if np.any(table[chunk[here], child[here]] != parent[here]):
        return None  # two parents
    above = table[chunk[here], parent[here]]
    orphans = here.nonzero()[0][above == ABSENT]
    table[chunk[orphans], parent[orphans]] = ROOT
    shapes, which = np.unique(table, axis=0, return_inverse=True)
    which = which.reshape(-1)
    used = (shapes != ABSENT).any(axis=1)
    if not _rooted(shapes[used]):
        return None
    chunks = defaultdict[tuple[int, ...], list[int]](list)
    for shape, merged in zip(used.nonzero()[0].tolist(), _merged(shapes[used]), strict=True):
        chunks[merged] += (which == shape).nonzero()[0].tolist()
    found = (ChunkTree(shape, tuple(sorted(c)), upward) for shape, c in chunks.items())
    return tuple(sorted(found, key=lambda tree: tree.chunks))


def _rooted(shapes: NDArray[np.int32]) -> bool:
    """Whether each tree has one root with every member below it."""
    if np.any((shapes == ROOT).sum(axis=1) != 1):
        return False
    above = np.where(shapes < 0, np.arange(shapes.shape[1]), shapes)
    for _ in range(shapes.shape[1].bit_length()):
        above = np.take_along_axis(above, above, axis=1)
    root = (shapes == ROOT).argmax(axis=1)
    return bool(np.all((above == root[:, None]) | (shapes == ABSENT)))


def _merged(shapes: NDArray[np.int32]) -> list[tuple[int, ...]]:
    """The tree that each shape is a part of: shapes of one root that nowhere contradict each other are one."""
    begun = defaultdict[int, list[NDArray[np.int32]]](list)
    into = list[NDArray[np.int32]]()
    for shape in shapes:
        same_root = begun[int((shape == ROOT).argmax())]
        for tree in same_root:
            if np.all((tree == shape) | (tree == ABSENT) | (shape == ABSENT)):
                np.maximum(tree, shape, out=tree)  # ABSENT is the least
                break
        else:
            tree = shape.copy()
            same_root.append(tree)
        into.append(tree)
    return [tuple(tree.tolist()) for tree in into]
