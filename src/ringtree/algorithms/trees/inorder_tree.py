"""In-order tree, for prefixes: a binary tree in which a rank stands between the ranks to its left and to its right.

Subtrees' sums go up, sums of all ranks further left go down, joined in rank order. exscan shifts by a rank, then scans.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, at_most, cost, lg, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform.rows import by_round

SOURCE = "Sanders, Träff: Parallel prefix (scan) algorithms for MPI, 2006"
WHEN = "a prefix of long vectors over many ranks; cut into pieces."

Chunk = tuple[Buffer, int]
INPUT, OUTPUT = (Buffer.INPUT, 0), (Buffer.OUTPUT, 0)
LEFT, WHOLE, BEFORE, OWN = ((Buffer.SCRATCH, chunk) for chunk in range(4))
"""The chunks for the sum of a rank's left subtree and itself, of its subtree, of all before that, and for a shift."""


@cost(at_most(4 * lg(n) - 5 + 2 * (n < 3)), at_most(3 * S), pipelines=True)
def scan(ranks: int) -> Schedule:
    """Returns the inclusive prefix, 1 chunk and 3 chunks of scratch."""
    return Schedule("inorder_tree", "scan", ranks, 1, (Block(by_round(_rows(ranks, INPUT, 0))),), scratch=3)


@cost(at_most(4 * lg(n) - 5 + 3 * (n < 3)), at_most(4 * S), pipelines=True)
def exscan(ranks: int) -> Schedule:
    """Returns the exclusive prefix: a shift by one rank, then the scan; 4 chunks of scratch."""
    shift = Transfers.of(np.arange(ranks - 1), np.arange(1, ranks), to=3, source_buffer=INPUT[0], target_buffer=OWN[0])
    blocks = (Block(by_round([shift, *_rows(ranks - 1, OWN, 1)])),) if ranks > 1 else ()
    return Schedule("inorder_tree", "exscan", ranks, 1, blocks, scratch=4)


def _rows(count: int, own: Chunk, first: int) -> list[Transfers]:
    """The scan of the chunks `own` of `count` ranks, from round `first` on; ranks are counted from rank `first`."""
    parts = list[Transfers]()
    left = dict[int, tuple[int, Chunk]]()  # the round from which a rank has LEFT, and its chunk

    def join(round: int, rank: int, into: Chunk, *sums: tuple[int, Chunk]) -> int:
        """Joins the sums (rank, chunk), lower first; returns the next round."""
        for k, (source, at) in enumerate(sums):
            ends = {"source_buffer": at[0], "target_buffer": into[0], "to": into[1], "reduce": k > 0, "round": round}
            parts.append(Transfers.of(source + first, rank + first, at[1], **ends))
        return round + 1

    def up(low: int, high: int, wanted: bool) -> tuple[int, int, Chunk]:
        """Sums up the left subtrees, and if `wanted` all; returns the sum's first round, its rank and its chunk."""
        mid, round, chunk = (low + high) // 2, first, own
        if low < mid:
            round, child, at = up(low, mid - 1, wanted=True)
            chunk = LEFT if low else OUTPUT  # with no rank before it, that is its result
            round = join(round, mid, chunk, (child, at), (mid, own))
        left[mid] = round, chunk
        if mid < high:
            ready, child, at = up(mid + 1, high, wanted)
            if wanted:
                round, chunk = join(max(round, ready), mid, WHOLE, (mid, chunk), (child, at)), WHOLE
        return round, mid, chunk

    def down(low: int, high: int, round: int, above: int, at: Chunk) -> None:
        """Rows down a subtree: from `round` on rank `above` has the sum of all before `low`; where low is 0 there is
        none."""
        ready, chunk = left[mid := (low + high) // 2]
        if low < mid:
            round = join(round, mid, BEFORE, (above, at)) if low else 0
            down(low, mid - 1, round, mid, BEFORE)
        if low == 0:
            round = ready
        elif low < mid:
            round, chunk = join(max(round, ready), mid, OUTPUT, (mid, BEFORE), (mid, LEFT)), OUTPUT
        else:
            round, chunk = join(round, mid, OUTPUT, (above, at), (mid, own)), OUTPUT
        if mid < high:
            down(mid + 1, high, round, mid, chunk)

    join(first, 0, OUTPUT, (0, own))
    up(0, count - 1, wanted=False)
    down(0, count - 1, 0, 0, own)
    return parts
