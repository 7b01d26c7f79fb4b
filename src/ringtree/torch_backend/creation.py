"""How a process group's members find each other: through torch's store first, then as every group of ringtree does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ringtree.runtime.communicator import Communicator
from ringtree.runtime.engine import Terms, default_engine
from ringtree.runtime.tuned import figures_here


def join(store: Any, rank: int, ranks: Sequence[int], timeout_s: float) -> Communicator:
    """This rank's communicator in a new group. `ranks`: the members' ranks in the world, in the order of the group;
    `rank`: this one's place among them. `store` is the group's own."""
    names = tuple(map(str, ranks))
    place = _place(store, rank)
    figures = figures_here() if rank == 0 else None
    return Communicator(default_engine(len(names)), Terms(place, rank, names, timeout_s, figures=figures))


def _place(store: Any, rank: int) -> str:
    """A text that the members of this group share, and nobody else ever had: the first of them makes it up.

    A store may have served such a group before: each member counts how often it came, and they meet under that number.
    """
    turn = store.add(f"ringtree/came/{rank}", 1)
    key = f"ringtree/place/{turn}"
    if rank == 0:
        store.set(key, f"torch-{os.urandom(8).hex()}")
    return str(store.get(key).decode())
