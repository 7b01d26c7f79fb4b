"""Recursive doubling: exchanges of all data with the rank 1, 2, 4, … away. Fewest rounds, for short vectors.

Among n ranks that are no power of two, p take part as in halving_doubling; all_gather is its second half. A sum is
taken in the same tree on all ranks, so they agree to the last bit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ringtree.algorithms.cost import S, at_most, cost, lg, minimum, n, p
from ringtree.algorithms.exchanges import halving_doubling
from ringtree.ir.schedule import Block, Schedule, Transfers

SOURCE = "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, 2005"
WHEN = "short vectors, where latency dominates and every rank sends to one at a time."


@cost(lg(p) + 2 * (n > p), (lg(p) + (n > p)) * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns exchanges of whole vectors, 1 chunk; ranks beyond p are folded in first and out last."""
    active, folded = halving_doubling.taking_part(ranks)
    a = np.arange(len(active))
    parts = [Transfers.of(folded, folded + 1, reduce=True)]
    parts += [
        Transfers.of(active, active[a ^ 1 << k], reduce=True, round=k + (len(folded) > 0))
        for k in range(len(active).bit_length() - 1)
    ]
    last = int(parts[-1].round.max(initial=-1)) + 1
    rows = Transfers.concatenate([*parts, Transfers.of(folded + 1, folded, round=last)])
    return Schedule("recursive_doubling", "all_reduce", ranks, 1, (Block(rows),) if len(rows) else ())


@cost(lg(p) + 2 * (n > p), at_most((p - 1 + minimum(p - 1, (n - p) * lg(p))) / n * S + (n > p) * S))
def all_gather(ranks: int) -> Schedule:
    """Returns halving_doubling's all_gather under this algorithm's name."""
    return replace(halving_doubling.all_gather(ranks), name="recursive_doubling")


@cost(lg(p) + 2 * (n > p), (lg(p) + (n > p)) * S)
def barrier(ranks: int) -> Schedule:
    """The token is added up; one round more or two than dissemination where n is no power of two."""
    return replace(all_reduce(ranks), collective="barrier")
