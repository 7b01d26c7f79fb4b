"""Blocks that differ in type.

[data, counts, displacements, types]  [data, (counts, displacements), types]     displacements in bytes
[data, types]     one of each type, at displacement 0
"""

from __future__ import annotations

from typing import Any

from ringtree.mpi.constants import BOTTOM
from ringtree.mpi.types.buffers import checked
from ringtree.mpi.types.datatype import Datatype
from ringtree.mpi.types.memory import OCTET, NumpyArray, flat
from ringtree.mpi.types.packed import gathered, gathered_at, way_back


class TypedBlocks:
    """One block of bytes for each of `ranks`, over the caller's memory where it is dense; of BOTTOM, whose
    displacements are addresses. ValueError: where one does not fit."""

    def __init__(self, spec: Any, ranks: int, writable: bool = False) -> None:
        data, counts, starts, types = _parts(spec, ranks)
        if data is not BOTTOM:
            line = checked(flat(data, OCTET), writable)
        kinds = [Datatype.fromcode(t) if isinstance(t, str) else t for t in types]
        if not len(counts) == len(starts) == len(kinds) == ranks:
            raise ValueError(f"{len(counts)} counts, {len(starts)} displacements, {len(kinds)} types; expected {ranks}")
        self.blocks: list[NumpyArray] = [
            gathered_at(int(start), kind.layout, int(n))
            if data is BOTTOM
            else gathered(line, int(start), kind.layout, int(n))
            for n, start, kind in zip(counts, starts, kinds, strict=True)
        ]
        self.sizes = [block.size for block in self.blocks]

    def unpack(self, room: NumpyArray) -> None:
        """Brings what was received, one block after another, to its places."""
        start = 0
        for size, block in zip(self.sizes, self.blocks, strict=True):
            block[:] = room[start : start + size]
            start += size
        if unpack := way_back(self.blocks):
            unpack(None)


def _parts(spec: Any, ranks: int) -> tuple[Any, Any, Any, Any]:
    """data, counts, displacements and types, as they are given."""
    if not isinstance(spec, list | tuple) or not 2 <= len(spec) <= 4:
        raise ValueError("expected a buffer as [data, types] or [data, counts, displacements, types]")
    if len(spec) == 4:
        data, counts, starts, types = spec
    elif len(spec) == 3:
        data, (counts, starts), types = spec
    else:
        data, types = spec
        counts = starts = None
    if counts is None and starts is None:
        if data is BOTTOM:
            raise ValueError("BOTTOM without counts and displacements; expected both, displacements as addresses")
        counts, starts = [1] * ranks, [0] * ranks
    if counts is None or starts is None:
        raise ValueError("counts without displacements, or the reverse; expected both or neither")
    return data, counts, starts, types
