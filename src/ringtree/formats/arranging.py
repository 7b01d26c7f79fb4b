"""Arranges rows placed in rounds: chunks that moved together become one transfer, and the rows of a
round, whose order is free, are listed in that of a few orders which shows most symmetry: the one that prints as the
fewest families.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.families import find
from ringtree.ir.schedule import COLUMNS, Schedule, Transfers

MOST_ROUNDS = 256
"""Above this number of rounds all are listed in one order: trying costs some milliseconds a round."""

MoveColumns = dict[str, NDArray[np.int64]]


class ChunkMove(NamedTuple):
    """The move of one chunk; cells are (rank, buffer, chunk). `order`: among the rows of its round into its target;
    `move`: rows of one are one transfer where they adjoin."""

    round: int
    order: int
    source: tuple[int, int, int]
    target: tuple[int, int, int]
    reduce: bool
    move: int


def arrange(moves: Sequence[ChunkMove], schedule: Schedule) -> Transfers:
    """The rows as columns of `schedule` (whose own blocks are ignored)."""
    names = ("round", "order", "source", "sbuf", "chunk", "target", "tbuf", "to", "reduce", "move")
    table = np.array([(r.round, r.order, *r.source, *r.target, r.reduce, r.move) for r in moves], dtype=np.int64)
    columns = _joined(dict(zip(names, table.reshape(-1, len(names)).T, strict=True)))
    n, block, chunks = schedule.ranks, max(schedule.chunks // schedule.ranks, 1), schedule.chunks
    for name in ("chunk", "to"):  # relative to the block of the sender
        columns[f"turned {name}"] = (columns[name] - columns["source"] * block) % chunks
    columns["far"] = (columns["target"] - columns["source"]) % n
    tried = [_sorted(columns, keys) for keys in _ORDERS]
    lengths = schedule.lengths

    known: dict[bytes, int] = {}

    def families(rows: Transfers) -> int:
        """The number of families that the rows print as, found once for orders that list a round alike."""
        columns = [rows.round - rows.round[:1], rows.reduce, *(getattr(rows, name) for name in COLUMNS[1:])]
        key = b"".join(column.tobytes() for column in columns)
        if key not in known:
            known[key] = sum(len(family.members) or 1 for family in find(rows, schedule.ranks, lengths))
        return known[key]

    rounds = [rows.by_round() for rows in tried]
    if 1 < len(rounds[0]) <= MOST_ROUNDS:
        tried.append(Transfers.concatenate(min(candidates, key=families) for candidates in zip(*rounds, strict=True)))
    return min(tried, key=families)


_ORDERS = (
    ("far", "turned chunk", "turned to", "source"),
    ("far", "source", "chunk", "to"),
    ("chunk", "to", "far", "source"),
    ("to", "chunk", "far", "source"),
    ("source", "target", "chunk", "to"),
    ("target", "source", "chunk", "to"),
)


def _sorted(columns: MoveColumns, keys: Sequence[str]) -> Transfers:
    """Round by round; additions into one target as they came; then by kind, and by `keys`."""
    c = columns
    names = ("round", "order", "reduce", "sbuf", "tbuf", "count", *keys)
    by = np.lexsort([c[name] for name in reversed(names)])
    return Transfers.of(
        c["source"][by],
        c["target"][by],
        c["chunk"][by],
        to=c["to"][by],
        count=c["count"][by],
        reduce=c["reduce"][by] != 0,
        round=c["round"][by],
        source_buffer=c["sbuf"][by],
        target_buffer=c["tbuf"][by],
    )


def _joined(columns: MoveColumns) -> MoveColumns:
    """Rows of one move and round whose chunks adjoin at both ends as one, with their `count`."""
    by = np.lexsort((columns["chunk"], columns["move"]))
    c = {name: column[by] for name, column in columns.items()}
    joins = np.ones(max(len(by) - 1, 0), np.bool_)
    for name, column in c.items():
        joins &= np.diff(column) == (name in ("chunk", "to"))
    starts = np.flatnonzero(~np.append(False, joins)) if len(by) else np.zeros(0, np.int64)
    c = {name: column[starts] for name, column in c.items()}
    c["count"] = np.diff(np.append(starts, len(by)))
    return c
