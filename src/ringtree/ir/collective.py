"""The collectives: every rank's precondition and postcondition. One table for the whole system.

Positions are counted on the *whole vector*, cut into `chunks` chunks: n blocks of chunks/n each where a collective
deals in blocks. A rank's input and output are windows of it: all of it, its own block, or all of it at the root only.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class BufferExtent(Enum):
    """The part of the whole vector in a rank's buffer."""

    ALL = "all"
    OWN = "own"  # block `rank` of n
    ROOT = "root"  # all of it at the root, nothing elsewhere
    LATER = "later"  # all of it, but nothing at rank 0


class Reach(Enum):
    """The ranks whose contributions a reduction at rank r has."""

    ALL = "all"
    UP_TO = "up to"  # ranks 0..r
    BEFORE = "before"  # ranks 0..r-1


REDUCED = -1
"""As an origin: the reduction over the rank's contributors, each exactly once."""


class Collective(NamedTuple):
    """A collective: the buffer extents before and after it, and its reduction.

    `repeats`: a contribution may arrive more than once (a barrier carries no data). `reach`: the contributors of a
    reduction."""

    name: str
    before: BufferExtent
    after: BufferExtent
    reduces: bool = False
    transposes: bool = False
    repeats: bool = False
    reach: Reach = Reach.ALL

    @property
    def rooted(self) -> bool:
        """Whether the collective has a root."""
        return BufferExtent.ROOT in (self.before, self.after)

    @property
    def blocked(self) -> bool:
        """Whether the whole vector is n blocks, so that `chunks` must be a multiple of n."""
        return self.transposes or BufferExtent.OWN in (self.before, self.after)

    @property
    def prefix(self) -> bool:
        """Whether a rank's result depends on the ranks before it, so that ranks cannot be exchanged."""
        return self.reach is not Reach.ALL

    def contributors(self, rank: int, ranks: int) -> range:
        """The ranks whose contributions a reduction at `rank` has."""
        return range({Reach.ALL: ranks, Reach.UP_TO: rank + 1, Reach.BEFORE: rank}[self.reach])

    def precondition(self, rank: int, ranks: int, chunks: int, root: int = 0) -> range:
        """Returns the chunks of the whole vector that `rank` has before the collective: its input."""
        return _window(self.before, rank, ranks, chunks, root)

    def postcondition(self, rank: int, ranks: int, chunks: int, root: int = 0) -> range:
        """Returns the chunks of the whole vector that `rank` must have after the collective: its output."""
        return _window(self.after, rank, ranks, chunks, root)

    def promised(
        self, rank: int, ranks: int, chunks: int, root: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The postcondition of one rank as columns (position, label, origin).

        `position` must hold the chunk of `origin` at its position `label`; origin REDUCED means the reduction of the
        contributors' chunks at position `label`.
        """
        position = np.array(self.postcondition(rank, ranks, chunks, root), dtype=np.int64)
        label = position
        if self.reduces:
            origin = np.full_like(position, REDUCED)
        elif self.transposes or self.before is BufferExtent.OWN:
            origin = position // max(chunks // ranks, 1)
        else:
            origin = np.full_like(position, root)
        if self.transposes:
            block = chunks // ranks
            label = rank * block + position % block
        return position, label, origin

    def precondition_labels(self, rank: int, ranks: int, chunks: int, root: int = 0) -> NDArray[np.int64]:
        """The size labels of `rank`'s input: positions, or rank * chunks + position where the collective transposes."""
        precondition = self.precondition(rank, ranks, chunks, root)
        return np.arange(precondition.start, precondition.stop) + (rank * chunks if self.transposes else 0)

    def postcondition_labels(self, rank: int, ranks: int, chunks: int, root: int = 0) -> NDArray[np.int64]:
        """The size labels of `rank`'s output."""
        _, label, origin = self.promised(rank, ranks, chunks, root)
        return label + origin * chunks if self.transposes else label

    def chunk_sizes(
        self, ranks: int, chunks: int, count: int, counts: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """The size of each chunk by its label, for a whole vector of `count` elements (or bytes): as even as can be,
        within each block where it is n blocks; a remainder that does not divide into blocks is left out.

        `counts`: the size of each block, [ranks], or where the collective transposes from each rank (row) to each
        (column), [ranks, ranks]; by default all are alike.
        """
        shape = (ranks, ranks) if self.transposes else (ranks,) if self.blocked else ()
        if counts is None:
            blocks = np.full(shape, count // ranks if self.blocked else count)
        elif counts.shape == shape != () and counts.sum() == count and np.all(counts >= 0):
            blocks = counts
        else:
            raise ValueError(f"{self.name} of {count} elements: expected their counts as {shape}, got {counts}")
        pieces = chunks // (ranks if self.blocked else 1)
        edges = blocks.reshape(-1, 1).astype(np.int64) * np.arange(pieces + 1, dtype=np.int64) // pieces
        return np.diff(edges, axis=1).reshape(-1)

    def bus_factor(self, ranks: int) -> float:
        """Bus bandwidth over algorithm bandwidth, as nccl-tests defines it (doc/PERFORMANCE.md there). It has no prefix
        reductions; they count as reduce: the last rank must receive the vector once."""
        if self.repeats:
            return 0.0
        share = (ranks - 1) / ranks
        if self.reduces and not self.prefix and self.before is self.after is BufferExtent.ALL:
            return 2 * share
        return share if self.blocked else 1.0


def _window(part: BufferExtent, rank: int, ranks: int, chunks: int, root: int) -> range:
    if part is BufferExtent.OWN:
        block = chunks // ranks
        return range(rank * block, (rank + 1) * block)
    if (part is BufferExtent.ROOT and rank != root) or (part is BufferExtent.LATER and rank == 0):
        return range(0)
    return range(chunks)


COLLECTIVES: dict[str, Collective] = {
    c.name: c
    for c in (
        Collective("all_reduce", BufferExtent.ALL, BufferExtent.ALL, reduces=True),
        Collective("reduce_scatter", BufferExtent.ALL, BufferExtent.OWN, reduces=True),
        Collective("all_gather", BufferExtent.OWN, BufferExtent.ALL),
        Collective("broadcast", BufferExtent.ROOT, BufferExtent.ALL),
        Collective("reduce", BufferExtent.ALL, BufferExtent.ROOT, reduces=True),
        Collective("gather", BufferExtent.OWN, BufferExtent.ROOT),
        Collective("scatter", BufferExtent.ROOT, BufferExtent.OWN),
        Collective("all_to_all", BufferExtent.ALL, BufferExtent.ALL, transposes=True),
        Collective("barrier", BufferExtent.ALL, BufferExtent.ALL, reduces=True, repeats=True),
        Collective("scan", BufferExtent.ALL, BufferExtent.ALL, reduces=True, reach=Reach.UP_TO),
        Collective("exscan", BufferExtent.ALL, BufferExtent.LATER, reduces=True, reach=Reach.BEFORE),
    )
}


def collective(name: str) -> Collective:
    """The collective of that name. ValueError, with the known ones: if there is none."""
    try:
        return COLLECTIVES[name]
    except KeyError:
        raise ValueError(f"no collective {name!r}: expected one of {', '.join(COLLECTIVES)}") from None
