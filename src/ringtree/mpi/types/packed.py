"""Arrays that stand for strided memory: its bytes without holes, which travel, and the way back.

A derived type that has holes is copied before a call that sends and after one that receives. A receive packs first,
too, so that elements that no message fills keep their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.mpi.types.layout import Layout
from ringtree.mpi.types.memory import memory_at


class Packed(np.ndarray[Any, Any]):
    """Elements of a derived type without holes. Every view of it knows the way back."""

    _home: Any = None

    def __array_finalize__(self, obj: Any) -> None:
        self._home = getattr(obj, "_home", None)

    def unpack(self) -> None:
        """Brings all the elements to their places, also from a view of some."""
        room, layout, memory, start, count = self._home
        layout.unpack(room, memory, start, count)


def gathered(memory: NDArray[np.uint8], start: int, layout: Layout, count: int) -> NDArray[np.uint8]:
    """The bytes of `count` elements from byte `start` of `memory`: a view where they are in a row, else Packed.
    ValueError: if the memory does not have them."""
    low, high = layout.span(count) if count > 0 else (0, 0)
    if count < 0 or start + low < 0 or start + high > memory.size:
        raise ValueError(
            f"a buffer of {memory.size} bytes; {count} elements of a derived type need bytes {start + low} to "
            f"{start + high} of it"
        )
    if layout.is_dense or not count:
        return memory[start : start + count * layout.size]
    room = np.empty(count * layout.size, np.uint8)
    layout.pack(memory, start, count, room)
    made = room.view(Packed)
    made._home = room, layout, memory, start, count
    made.flags.writeable = memory.flags.writeable
    return made


def gathered_at(address: int, layout: Layout, count: int) -> NDArray[np.uint8]:
    """`gathered` of elements at an address, which is the caller's to know."""
    low, high = layout.span(count) if count > 0 else (-address, -address)
    return gathered(memory_at(address + low, high - low), -low, layout, count)


def way_back(rooms: Iterable[Any]) -> Callable[[Any], None] | None:
    """A function of a finished call that unpacks all of `rooms`; None where none is Packed."""
    homes = {id(room._home): room for room in rooms if type(room) is Packed}
    if not homes:
        return None

    def unpack(_: Any) -> None:
        for room in homes.values():
            room.unpack()

    return unpack
