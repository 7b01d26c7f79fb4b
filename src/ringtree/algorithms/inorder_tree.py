"""In-order tree, for prefixes: a binary tree in which a rank stands between the ranks to its left and to its right.

Subtrees' sums go up, sums of all that is further left down, joined in rank order. exscan shifts by a rank, then scans.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, at_most, cost, lg, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform.rows import by_round

SOURCE = "Sanders, Träff: Parallel prefix (scan) algorithms for MPI, 2006"
WHEN = "a prefix of long vectors over many ranks; cut into pieces."

Place = tuple[Buffer, int]
INPUT, OUTPUT = (Buffer.INPUT, 0), (Buffer.OUTPUT, 0)
LEFT, WHOLE, BEFORE, OWN = ((Buffer.SCRATCH, chunk) for chunk in range(4))
"""Where a rank has the sum of its left subtree and itself, of its subtree, of all before that; what a shift brought."""


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


def _rows(count: int, own: Place, first: int) -> list[Transfers]:
    """The scan of what `count` ranks have at `own`, from round `first` on; ranks are counted from rank `first`."""
    parts, left = list[Transfers](), dict[int, tuple[int, Place]]()  # from which round on, and where, a rank has LEFT

    def join(round: int, rank: int, into: Place, *sums: tuple[int, Place]) -> int:
        """The sums (whose, where), lower first; the round after."""
        for k, (source, at) in enumerate(sums):
            ends = {"source_buffer": at[0], "target_buffer": into[0], "to": into[1], "reduce": k > 0, "round": round}
            parts.append(Transfers.of(source + first, rank + first, at[1], **ends))
        return round + 1

    def up(low: int, high: int, wanted: bool) -> tuple[int, int, Place]:
        """Sums up the left subtrees, and if `wanted` all: from which round on, at which rank, where it can be read."""
        mid, round, place = (low + high) // 2, first, own
        if low < mid:
            round, child, at = up(low, mid - 1, wanted=True)
            place = LEFT if low else OUTPUT  # with nothing before it, that is its result
            round = join(round, mid, place, (child, at), (mid, own))
        left[mid] = round, place
        if mid < high:
            ready, child, at = up(mid + 1, high, wanted)
            if wanted:
                round, place = join(max(round, ready), mid, WHOLE, (mid, place), (child, at)), WHOLE
        return round, mid, place

    def down(low: int, high: int, round: int, above: int, at: Place) -> None:
        """From `round` on the sum of all before `low` can be read at rank `above`; where low is 0 there is none."""
        ready, place = left[mid := (low + high) // 2]
        if low < mid:
            round = join(round, mid, BEFORE, (above, at)) if low else 0
            down(low, mid - 1, round, mid, BEFORE)
        if low == 0:
            round = ready
        elif low < mid:
            round, place = join(max(round, ready), mid, OUTPUT, (mid, BEFORE), (mid, LEFT)), OUTPUT
        else:
            round, place = join(round, mid, OUTPUT, (above, at), (mid, own)), OUTPUT
        if mid < high:
            down(mid + 1, high, round, mid, place)

    join(first, 0, OUTPUT, (0, own))
    up(0, count - 1, wanted=False)
    down(0, count - 1, 0, 0, own)
    return parts
