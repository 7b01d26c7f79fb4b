"""Flat: the root exchanges with every rank directly, one transfer each.

gather: 1 round, S/n bytes
scatter: 1 round, (n-1)/n*S bytes

Source: Vadhiyar, Fagg, Dongarra: Automatically tuned collective communications, 2000
"""

from __future__ import annotations

import numpy as np

from ringtree.ir.schedule import Block, Schedule, Transfers


def gather(ranks: int, root: int) -> Schedule:
    others = (root + np.arange(1, ranks)) % ranks
    blocks = (Block(Transfers.of(others, root, others)),) if ranks > 1 else ()
    return Schedule("flat", "gather", ranks, ranks, blocks, root)


def scatter(ranks: int, root: int) -> Schedule:
    others = (root + np.arange(1, ranks)) % ranks
    blocks = (Block(Transfers.of(root, others, others)),) if ranks > 1 else ()
    return Schedule("flat", "scatter", ranks, ranks, blocks, root)
