"""Blocks that differ in type: [data, counts, displacements in bytes, types]."""

from __future__ import annotations

from typing import Any

from ringtree.mpi.buffers import NumpyArray, checked, octets
from ringtree.mpi.constants import BOTTOM
from ringtree.mpi.datatype import Datatype


class TypedBlocks:
    """One block of bytes for each of `ranks`, over the caller's memory. ValueError: where one does not fit."""

    def __init__(self, spec: Any, ranks: int, writable: bool = False) -> None:
        data, *rest = spec
        types = rest.pop()
        counts, starts = rest[0] if len(rest) == 1 else rest
        if data is BOTTOM:
            raise NotImplementedError("Alltoallw from BOTTOM: expected the buffer itself, with displacements in it")
        line = checked(octets(data), writable)
        kinds = [Datatype.fromcode(t) if isinstance(t, str) else t for t in types]
        if not len(counts) == len(starts) == len(kinds) == ranks:
            raise ValueError(f"{len(counts)} counts, {len(starts)} displacements, {len(kinds)} types; expected {ranks}")
        self.sizes = sizes = [int(n) * kind.size for n, kind in zip(counts, kinds, strict=True)]
        for size, start in zip(sizes, starts, strict=True):
            if size < 0 or (size and not 0 <= start <= line.size - size):
                raise ValueError(f"a block of {size} bytes at {start} does not fit a buffer of {line.size} bytes")
        self.blocks = [line[start : start + size] for size, start in zip(sizes, starts, strict=True)]

    def unpack(self, room: NumpyArray) -> None:
        """Brings what was received, one block after another, to its places."""
        start = 0
        for size, block in zip(self.sizes, self.blocks, strict=True):
            block[:] = room[start : start + size]
            start += size
