"""The places of a derived type's bytes: pieces of equal runs at equal steps, which numpy copies without a loop.

A piece is one strided view, so a vector or a part of an array of any dimensions is one numpy copy. A type of many
pieces, such as an indexed one, has an index instead, made once: 8 bytes for every item, whose copy is a numpy take.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_VIEWS = 16
"""Pieces that are copied one by one; a type of more has an index."""

Octets = NDArray[np.uint8]


class Piece(NamedTuple):
    """`run` bytes at `place`, repeated `lengths` times at `steps`; they lie at `packed` and its `strides` in a message.
    All in bytes but the lengths."""

    place: int
    packed: int
    lengths: tuple[int, ...]
    steps: tuple[int, ...]
    strides: tuple[int, ...]
    run: int

    @property
    def low(self) -> int:
        """The first byte."""
        return self.place + sum(min(0, (n - 1) * step) for n, step in zip(self.lengths, self.steps, strict=True))

    @property
    def high(self) -> int:
        """The byte behind the last."""
        reach = sum(max(0, (n - 1) * step) for n, step in zip(self.lengths, self.steps, strict=True))
        return self.place + reach + self.run


class Layout:
    """The pieces of one element of a type; `lower` and `upper` bound it, and elements lie `extent` apart. In bytes."""

    def __init__(self, pieces: Sequence[Piece], lower: int, upper: int) -> None:
        self.pieces = [piece for piece in pieces if piece.run and 0 not in piece.lengths]
        self.size = sum(math.prod(piece.lengths) * piece.run for piece in self.pieces)
        self.lower, self.upper, self.extent = lower, upper, upper - lower

    @classmethod
    def plain(cls, nbytes: int) -> Layout:
        """The layout of `nbytes` bytes in a row."""
        return cls([Piece(0, 0, (), (), (), nbytes)], 0, nbytes)

    @classmethod
    def joined(cls, parts: Iterable[tuple[int, Layout]]) -> Layout:
        """The layout of parts, each at its displacement, in the order of their messages."""
        pieces: list[Piece] = []
        lower, upper, packed = [], [], 0
        for shift, part in parts:
            for piece in part.pieces:
                moved = piece._replace(place=piece.place + shift, packed=piece.packed + packed)
                last = pieces[-1] if pieces else None
                if last and not (last.lengths or moved.lengths) and last.place + last.run == moved.place:
                    pieces[-1] = last._replace(run=last.run + moved.run)
                else:
                    pieces.append(moved)
            packed += part.size
            lower.append(shift + part.lower)
            upper.append(shift + part.upper)
        return cls(pieces, min(lower, default=0), max(upper, default=0))

    def repeated(self, count: int, step: int) -> Layout:
        """The layout of `count` elements, `step` bytes from one to the next."""
        if count == 1:
            return self
        if count < 1:
            return Layout([], 0, 0)
        first = self.pieces[0] if self.pieces else None
        if first and len(self.pieces) == 1 and not first.lengths and step == first.run:
            pieces = [first._replace(run=count * first.run)]
        else:
            pieces = [
                piece._replace(
                    lengths=(count, *piece.lengths), steps=(step, *piece.steps), strides=(self.size, *piece.strides)
                )
                for piece in self.pieces
            ]
        reach = (count - 1) * step
        return Layout(pieces, self.lower + min(0, reach), self.upper + max(0, reach))

    def resized(self, lower: int, extent: int) -> Layout:
        """The same bytes with other bounds."""
        return Layout(self.pieces, lower, lower + extent)

    @property
    def true_lower(self) -> int:
        """The first byte that belongs to the type."""
        return min((piece.low for piece in self.pieces), default=0)

    @property
    def true_upper(self) -> int:
        """The byte behind the last that belongs to the type."""
        return max((piece.high for piece in self.pieces), default=0)

    @property
    def is_dense(self) -> bool:
        """Whether elements are bytes in a row, one behind another, so that nothing needs to be packed."""
        return len(self.pieces) < 2 and self.pieces == Layout.plain(self.extent).pieces and self.lower == 0

    def span(self, count: int) -> tuple[int, int]:
        """The first byte of `count` elements, and the byte behind the last."""
        reach = (count - 1) * self.extent
        return self.true_lower + min(0, reach), self.true_upper + max(0, reach)

    def pack(self, memory: Octets, start: int, count: int, room: Octets) -> None:
        """Copies `count` elements from byte `start` of `memory` to `room`, without holes."""
        if len(self.pieces) > MOST_VIEWS:
            window, index, items = self._indexed(memory, start, count)
            room.view(items)[:] = window[index]
            return
        for piece in self.repeated(count, self.extent).pieces:
            _packed(room, piece)[...] = _placed(memory, start, piece)

    def unpack(self, room: Octets, memory: Octets, start: int, count: int) -> None:
        """Copies `room` to the places of `count` elements from byte `start` of `memory`; holes stay as they are."""
        if len(self.pieces) > MOST_VIEWS:
            window, index, items = self._indexed(memory, start, count)
            window[index] = room.view(items)
            return
        for piece in self.repeated(count, self.extent).pieces:
            _placed(memory, start, piece)[...] = _packed(room, piece)

    def _indexed(self, memory: Octets, start: int, count: int) -> tuple[Any, Any, np.dtype[Any]]:
        low, high = self.span(count)
        width, places = self._items
        index = np.add.outer(np.arange(count) * (self.extent // width), places).reshape(-1) - low // width
        items = np.dtype(f"V{width}")
        return memory[start + low : start + high].view(items), index, items

    @cached_property
    def _items(self) -> tuple[int, NDArray[np.intp]]:
        """The bytes of an item, which divide all steps and runs, and the places of an element's items, counted in
        items, in their order in a message."""
        width = self.extent
        for piece in self.pieces:
            width = math.gcd(width, piece.place, piece.run, piece.packed, *piece.steps, *piece.strides)
        places = np.empty(self.size // width, np.intp)
        for piece in self.pieces:
            to, places_of_run = np.arange(piece.run // width), np.arange(piece.run // width)
            for n, step, stride in zip(piece.lengths, piece.steps, piece.strides, strict=True):
                places_of_run = np.add.outer(np.arange(n) * (step // width), places_of_run)
                to = np.add.outer(np.arange(n) * (stride // width), to)
            places[to.reshape(-1) + piece.packed // width] = places_of_run.reshape(-1) + piece.place // width
        return width, places


def _placed(memory: Octets, start: int, piece: Piece) -> NDArray[Any]:
    return _view(memory, start + piece.place, piece.lengths, piece.steps, piece.run)


def _packed(room: Octets, piece: Piece) -> NDArray[Any]:
    return _view(room, piece.packed, piece.lengths, piece.strides, piece.run)


def _view(memory: Octets, offset: int, lengths: tuple[int, ...], steps: tuple[int, ...], run: int) -> NDArray[Any]:
    """A view of runs, as items of the greatest width that divides them."""
    width = math.gcd(run, 8)
    return np.ndarray((*lengths, run // width), f"u{width}", memory, offset, (*steps, width))
