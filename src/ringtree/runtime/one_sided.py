"""Memory that all ranks of a group share, as methods of the communicator."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ringtree.runtime import symmetric
from ringtree.runtime.arrays import dtype_named
from ringtree.runtime.collectives import Collectives


class OneSided(Collectives):
    """Arrays that peers reach without this rank's doing."""

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """An array in memory that peers read in place. All ranks of the group ask for the same. It is the group's: the
        memory is kept until the communicator is closed and the array is gone."""
        whole = (operator.index(shape),) if not isinstance(shape, tuple | list) else tuple(map(operator.index, shape))
        wanted = dtype_named(dtype)
        said = self.all_gather(symmetric.request(whole, wanted))  # a rank that died or asks for else is noticed here
        symmetric.agree(said, self._terms.names)
        self._made += 1
        place = f"{self._terms.place}/{self._made}"
        return symmetric.allocate(self._seat, self._terms, place, whole, wanted)
