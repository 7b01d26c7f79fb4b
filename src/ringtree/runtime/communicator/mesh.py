"""A group as a grid of ranks with named axes: one communicator an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING

from ringtree.runtime.communicator.arguments import described, whole

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator


class Mesh:
    """The result of `comm.mesh(dp=2, tp=4)`. `mesh.tp`, or `mesh["tp"]`, is the communicator of the ranks that differ
    from this one along that axis alone, in order of their coordinates there. An axis that is called as the mesh's own
    attributes are (shape, close) is reached by mesh["shape"].

    `mesh["dp", "tp"]` is that of the ranks that differ along these axes, the last varying fastest. It is made when they
    first ask for it, which all of them do while the group that the mesh is of is open; then it outlives that group, as
    the axes' communicators do.
    """

    def __init__(
        self,
        axes: dict[str, int],
        rank: int,
        size: int,
        communicator: Callable[[Sequence[int], str], Communicator],
    ) -> None:
        self.shape = _shape(axes, size)
        self.coordinates = dict(zip(self.shape, _unravelled(rank, list(self.shape.values())), strict=True))
        self._communicator = communicator
        self._made: dict[tuple[str, ...], Communicator] = {}
        for axis in self.shape:
            self[axis]

    def __getitem__(self, axes: str | tuple[str, ...]) -> Communicator:
        if not isinstance(axes, str | tuple):
            raise TypeError(f"axes are {described(axes)}; expected a name, or several in a tuple")
        names = (axes,) if isinstance(axes, str) else axes
        found = self._made.get(names)
        if found is None:
            ranks = self._ranks(names)
            found = self._made[names] = self._communicator(ranks, f"{' x '.join(names)}.{ranks[0]}")
        return found

    def __getattr__(self, axis: str) -> Communicator:
        shape = self.__dict__.get("shape", {})  # none yet where one is copied
        if axis not in shape:
            raise AttributeError(f"a mesh of {_text(shape)} has no {axis!r}")
        return self[axis]

    def close(self) -> None:
        """Closes the communicators of the mesh."""
        for communicator in self._made.values():
            communicator.close()

    def _ranks(self, names: tuple[str, ...]) -> list[int]:
        """The ranks that differ from this one along these axes alone."""
        unknown = [name for name in names if name not in self.shape]
        if unknown or not names or len(set(names)) < len(names):
            asked = ", ".join(map(repr, names)) or "none"
            raise KeyError(f"no axes {asked} in a mesh of {_text(self.shape)}; expected some of these, once each")
        found = []
        for positions in product(*(range(self.shape[name]) for name in names)):
            at = self.coordinates | dict(zip(names, positions, strict=True))
            rank = 0
            for axis, length in self.shape.items():
                rank = rank * length + at[axis]
            found.append(rank)
        return found

    def __repr__(self) -> str:
        return f"<Mesh {_text(self.shape)}, this rank at {_text(self.coordinates)}>"


def _shape(axes: dict[str, int], size: int) -> dict[str, int]:
    """The axes' lengths, the one that is -1 inferred."""
    shape = {name: whole(length, name) for name, length in axes.items()}
    call = f"mesh({_text(shape)})"
    left = [name for name, length in shape.items() if length == -1]
    if not shape or len(left) > 1 or any(length < 1 and length != -1 for length in shape.values()):
        raise ValueError(f"{call}: expected axes with lengths of at least 1, of which one may be -1")
    known = math.prod(length for length in shape.values() if length != -1)
    times = " * ".join(str(length) for length in shape.values() if length != -1) or "1"
    if left and size % known:
        raise ValueError(f"{call}: {size} ranks are no multiple of {times} = {known}")
    if not left and known != size:
        raise ValueError(f"{call}: {times} = {known} ranks; this group has {size}")
    return {name: size // known if length == -1 else length for name, length in shape.items()}


def _unravelled(rank: int, lengths: list[int]) -> list[int]:
    positions = []
    for length in reversed(lengths):
        rank, position = divmod(rank, length)
        positions.append(position)
    return positions[::-1]


def _text(positions: dict[str, int]) -> str:
    return ", ".join(f"{name}={position}" for name, position in positions.items())
