"""Datatypes made of others: MPI's constructors, as methods of every Datatype.

Making a type costs a step for each block that it lists; using one costs a numpy copy of what it selects, each way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ringtree.mpi.constants import ORDER_C, ORDER_FORTRAN
from ringtree.mpi.errors import ERR_ARG, ERR_COUNT, Exception
from ringtree.mpi.types.layout import Layout

if TYPE_CHECKING:
    from ringtree.mpi.types.datatype import Datatype


class Constructors:
    """Types made of this one. Strides and displacements are in extents of this type, those of the forms with an
    `h` in bytes. ValueError: for lists that differ in length. Exception of ERR_COUNT, ERR_ARG: for numbers below 0."""

    layout: Layout
    extent: int

    def _made(self, combiner: str, layout: Layout, **given: Any) -> Datatype:
        raise NotImplementedError

    def Create_contiguous(self, count: int) -> Datatype:
        """`count` elements, one behind another."""
        _none_below_0(ERR_COUNT, "count", [count])
        return self._made("CONTIGUOUS", self.layout.repeated(count, self.extent), count=count)

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Datatype:
        """`count` blocks of `blocklength` elements, `stride` elements from one block to the next."""
        layout = self._strided(count, blocklength, stride * self.extent)
        return self._made("VECTOR", layout, count=count, blocklength=blocklength, stride=stride)

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Datatype:
        """Create_vector with the stride in bytes."""
        layout = self._strided(count, blocklength, stride)
        return self._made("HVECTOR", layout, count=count, blocklength=blocklength, stride=stride)

    def Create_indexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Datatype:
        """Blocks of these lengths at these displacements."""
        layout = self._blocks(blocklengths, displacements, self.extent)
        given = {"blocklengths": [*map(int, blocklengths)], "displacements": [*map(int, displacements)]}
        return self._made("INDEXED", layout, **given)

    def Create_hindexed(self, blocklengths: Sequence[int], displacements: Sequence[int]) -> Datatype:
        """Create_indexed with displacements in bytes."""
        layout = self._blocks(blocklengths, displacements, 1)
        given = {"blocklengths": [*map(int, blocklengths)], "displacements": [*map(int, displacements)]}
        return self._made("HINDEXED", layout, **given)

    def Create_indexed_block(self, blocklength: int, displacements: Sequence[int]) -> Datatype:
        """Blocks of one length at these displacements."""
        layout = self._blocks([blocklength] * len(displacements), displacements, self.extent)
        given = {"blocklength": blocklength, "displacements": [*map(int, displacements)]}
        return self._made("INDEXED_BLOCK", layout, **given)

    def Create_hindexed_block(self, blocklength: int, displacements: Sequence[int]) -> Datatype:
        """Create_indexed_block with displacements in bytes."""
        layout = self._blocks([blocklength] * len(displacements), displacements, 1)
        given = {"blocklength": blocklength, "displacements": [*map(int, displacements)]}
        return self._made("HINDEXED_BLOCK", layout, **given)

    def Create_subarray(
        self, sizes: Sequence[int], subsizes: Sequence[int], starts: Sequence[int], order: int = ORDER_C
    ) -> Datatype:
        """The part `subsizes` from `starts` on of an array of `sizes`, whose extent is the whole array. Exception of
        ERR_ARG: where the part does not lie in the array."""
        if not len(sizes) == len(subsizes) == len(starts):
            raise ValueError(f"{len(sizes)} sizes, {len(subsizes)} subsizes, {len(starts)} starts; expected as many")
        for size, part, begin in zip(sizes, subsizes, starts, strict=True):
            if begin < 0 or part < 0 or begin + part > size:
                raise Exception(ERR_ARG, f"a part of {part} from {begin} on does not lie in a dimension of {size}")
        if not len(sizes):
            raise Exception(ERR_ARG, "an array without dimensions; expected a size for each of one or more")
        if order not in (ORDER_C, ORDER_FORTRAN):
            raise Exception(ERR_ARG, f"order {order}; expected ORDER_C or ORDER_FORTRAN")
        layout, step, first = self.layout, self.extent, 0
        axes = range(len(sizes))
        for axis in reversed(axes) if order == ORDER_C else axes:
            layout = layout.repeated(int(subsizes[axis]), step)
            first += int(starts[axis]) * step
            step *= int(sizes[axis])
        given = {"sizes": [*map(int, sizes)], "subsizes": [*map(int, subsizes)], "starts": [*map(int, starts)]}
        return self._made("SUBARRAY", Layout.joined([(first, layout)]).resized(0, step), **given, order=order)

    def Create_resized(self, lb: int, extent: int) -> Datatype:
        """This type with another lower bound and extent, in bytes."""
        return self._made("RESIZED", self.layout.resized(lb, extent), lb=lb, extent=extent)

    Resized = Create_resized

    def Dup(self) -> Datatype:
        """A type like this one."""
        return self._made("DUP", self.layout)

    Create_dup = Dup

    def _strided(self, count: int, blocklength: int, step: int) -> Layout:
        _none_below_0(ERR_COUNT, "count", [count])
        _none_below_0(ERR_ARG, "blocklength", [blocklength])
        return self.layout.repeated(blocklength, self.extent).repeated(count, step)

    def _blocks(self, lengths: Sequence[int], places: Sequence[int], unit: int) -> Layout:
        if len(lengths) != len(places):
            raise ValueError(f"{len(lengths)} blocklengths, {len(places)} displacements; expected as many")
        _none_below_0(ERR_ARG, "blocklength", lengths)
        of_length = {int(n): self.layout.repeated(int(n), self.extent) for n in set(lengths)}
        return Layout.joined(
            (int(place) * unit, of_length[int(n)]) for n, place in zip(lengths, places, strict=True) if n
        )


def joined(lengths: Sequence[int], places: Sequence[int], types: Sequence[Datatype], alignment: int) -> Layout:
    """The layout of a struct: blocks of different types, at displacements in bytes. Its extent is a multiple of the
    alignment, as a C compiler pads."""
    if not len(lengths) == len(places) == len(types):
        raise ValueError(
            f"{len(lengths)} blocklengths, {len(places)} displacements, {len(types)} types; expected as many"
        )
    _none_below_0(ERR_ARG, "blocklength", lengths)
    layout = Layout.joined(
        (int(place), kind.layout.repeated(int(n), kind.extent))
        for n, place, kind in zip(lengths, places, types, strict=True)
        if n
    )
    return layout.resized(layout.lower, -(-layout.extent // alignment) * alignment)


def _none_below_0(error_class: int, what: str, given: Sequence[int]) -> None:
    for number in given:
        if number < 0:
            raise Exception(error_class, f"a {what} of {number} elements; expected 0 or more")
