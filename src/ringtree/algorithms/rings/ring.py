"""Ring: every rank sends to the next one only. Fewest bytes per rank; latency grows with n."""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, n
from ringtree.ir.schedule import Block, Schedule, Shift, Transfers

SOURCE = "Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009"
WHEN = "long vectors, where bytes alone count and every rank is near to the next one only."


@cost(2 * (n - 1), 2 * (n - 1) / n * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns a reduce_scatter, then an all_gather: 2(n-1) rounds, n chunks."""
    return reduce_scatter(ranks).then(all_gather(ranks), "all_reduce")


@cost(n - 1, (n - 1) / n * S)
def reduce_scatter(ranks: int) -> Schedule:
    """A partial sum per block goes round, starting behind the block's owner so that it ends there."""
    return Schedule("ring", "reduce_scatter", ranks, ranks, _lap(ranks, ahead=-1, reduce=True))


@cost(n - 1, (n - 1) / n * S)
def all_gather(ranks: int) -> Schedule:
    """Every block goes round, starting at its owner."""
    return Schedule("ring", "all_gather", ranks, ranks, _lap(ranks, ahead=0, reduce=False))


def _lap(ranks: int, ahead: int, reduce: bool) -> tuple[Block, ...]:
    """Returns the rows of n-1 rounds: in round k rank r sends chunk r+ahead-k to rank r+1."""
    rank = np.arange(ranks)
    rows = Transfers.of(rank, (rank + 1) % ranks, (rank + ahead) % ranks, reduce=reduce)
    return (Block(rows, ranks - 1, Shift.chunk(-1)),) if ranks > 1 else ()
