"""An algorithm of one's own, outside of ringtree's package, and one with a mistake in it.

    ringtree prove examples/own_algorithm.py:there_and_back -n 1-16
    ringtree bench all_reduce -n 4 --algorithm examples/own_algorithm.py:there_and_back

Run alone it registers the first, and four ranks call it by its name.
"""

from dataclasses import replace

import numpy as np

import ringtree
from ringtree.algorithms import cost, register
from ringtree.algorithms.cost import S, n
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform.rows import fuse


@cost(2 * (n - 1), S + (n > 2) * S, pipelines=True)
def there_and_back(ranks):
    """There and back: a sum goes from rank 0 to the last one, hop by hop, and back to all."""
    hop = np.arange(ranks - 1)
    there = Transfers.of(hop, hop + 1, reduce=True, round=hop)
    back = Transfers.of(ranks - 1 - hop, ranks - 2 - hop, round=hop)
    blocks = fuse((Block(there), Block(back)))  # one block, so that both directions overlap when it is cut
    return Schedule("there_and_back", "all_reduce", ranks, 1, blocks if ranks > 1 else ())


def there_and_half_back(ranks):
    """The same, but the way back ends one hop too early."""
    whole = there_and_back(ranks)
    rows = whole.expand()
    return replace(whole, blocks=(Block(rows.take(slice(len(rows) - 1))),))


def total(comm):
    return comm.all_reduce(np.full(2, comm.rank), algorithm="there_and_back").tolist()


if __name__ == "__main__":
    register(there_and_back)
    for rank, found in enumerate(ringtree.spawn(total, 4)):
        print(f"rank {rank} has {found}")
