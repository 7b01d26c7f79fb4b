"""Smaller groups of a group."""

from __future__ import annotations

import operator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ringtree.runtime.collectives import Collectives
from ringtree.runtime.engine import Terms

if TYPE_CHECKING:
    from ringtree.runtime.communicator import Communicator


class Groups(Collectives):
    """How a communicator makes others."""

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """The communicator of the ranks that said the same `color`, ordered by `key`, then by rank here; None for
        those who said None. All ranks of this group call it."""
        mine = [0, 0, 0] if color is None else [1, operator.index(color), operator.index(key)]
        table = np.asarray(self.all_gather(np.array(mine, dtype=np.int64))).tolist()
        self._made += 1
        if color is None:
            return None
        colors = sorted({c for here, c, _ in table if here})
        members = sorted((k, r) for r, (here, c, k) in enumerate(table) if here and c == mine[1])
        ranks = [r for _, r in members]
        place = f"{self._terms.place}/{self._made}.{colors.index(mine[1])}"
        names = tuple(self._terms.names[r] for r in ranks)
        look = partial(self._seat.look, "split")
        terms = Terms(place, ranks.index(self.rank), names, self._terms.timeout_s, self._terms.threads, look)
        return self._communicator(terms)

    def _communicator(self, terms: Terms) -> Communicator:
        """The communicator of a new group's member."""
        from ringtree.runtime.communicator import Communicator

        return Communicator(self._engine, terms)
