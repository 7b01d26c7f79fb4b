"""The reference engine's arithmetic: encoded programs decoded again, operands found in memory, sources reduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_char
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Kind, Space
from ringtree.runtime.arrays import OPS, Dtype

Values = NDArray[Any]

STORED: dict[Dtype, np.dtype[Any]] = {
    Dtype.INT32: np.dtype(np.int32),
    Dtype.INT64: np.dtype(np.int64),
    Dtype.FLOAT32: np.dtype(np.float32),
    Dtype.FLOAT64: np.dtype(np.float64),
    Dtype.BFLOAT16: np.dtype(np.uint16),
}
"""How elements lie in memory. numpy has no bfloat16: its bits are the upper half of a float32's."""

STEP: dict[int, Callable[..., Values]] = {
    OPS["sum"]: np.add,
    OPS["max"]: np.maximum,
    OPS["min"]: np.minimum,
    OPS["prod"]: np.multiply,
    OPS["avg"]: np.add,  # and divided once, at the very end
}


class Part(NamedTuple):
    """An operand: `count` chunks of `space` from `index`, with the sizes of the whole vector's chunks at `label`."""

    space: int
    index: int  # type: ignore[assignment]  # as in ir.program.Operand
    label: int
    count: int  # type: ignore[assignment]


class Step(NamedTuple):
    """An instruction. `readers`: for each target that is a slot, how many signals will tell of what is written."""

    kind: int
    peer: int
    register: int
    targets: tuple[Part, ...]
    sources: tuple[Part, ...]
    readers: dict[int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """A program bound to sizes; see ringtree._native.Group.prepare. All sizes are in elements."""

    steps: tuple[Step, ...]
    sizes: list[int]
    offsets: dict[int, list[int]]
    window: int
    scratch: int
    dtype: Dtype
    op: int
    output_count: int

    @property
    def windows(self) -> int:
        """How many times the program is run: once even where there is nothing to move, so that all ranks take part."""
        return max(-(-max(self.sizes, default=0) // self.window), 1)

    def lengths(self, part: Part, window: int) -> list[int]:
        """Elements of each of the part's chunks that lie in the window."""
        low = window * self.window
        sizes = self.sizes[part.label : part.label + part.count]
        return [min(max(size - low, 0), self.window) for size in sizes]

    def places(self, part: Part, window: int) -> list[tuple[int, int]]:
        """(first element, elements) of each of the part's chunks, where they lie in the part's space."""
        starts = self.offsets[part.space][part.index : part.index + part.count]
        return [(s + window * self.window, n) for s, n in zip(starts, self.lengths(part, window), strict=True)]


def decode(
    instructions: NDArray[np.int32],
    operands: NDArray[np.int32],
    sizes: NDArray[np.int64],
    input_offsets: NDArray[np.int64],
    output_offsets: NDArray[np.int64],
    scratch: int,
    window: int,
    dtype: int,
    op: int,
) -> Plan:
    """The plan that Program.encode's two tables say, bound to sizes."""
    parts = [Part(*row) for row in operands.tolist()]
    heads = instructions.tolist()
    steps = []
    for at, (kind, peer, register, first, targets, sources) in enumerate(heads):
        ends = (first + targets, first + targets + sources)
        mine = tuple(parts[first : ends[0]])
        readers = {t.index: _readers(heads[at + 1 :], parts, t.index) for t in mine if t.space == Space.SLOT}
        steps.append(Step(kind, peer, register, mine, tuple(parts[ends[0] : ends[1]]), readers))
    largest = int(sizes.max(initial=0))
    offsets = {
        int(Space.INPUT): input_offsets.tolist(),
        int(Space.OUTPUT): output_offsets.tolist(),
        int(Space.SCRATCH): [i * largest for i in range(scratch)],
    }
    written = [p for s in steps for p in s.targets if p.space == Space.OUTPUT]
    ends_at = [offsets[p.space][p.index + i] + int(sizes[p.label + i]) for p in written for i in range(p.count)]
    return Plan(
        tuple(steps), sizes.tolist(), offsets, window, scratch * largest, Dtype(dtype), op, max(ends_at, default=0)
    )


def _readers(later: Sequence[Sequence[int]], parts: Sequence[Part], register: int) -> int:
    """Signals of slot `register` until it is written again."""
    told = 0
    for kind, _, named, first, targets, _ in later:
        if kind == Kind.SIGNAL and named == register:
            told += 1
        if any(p.space == Space.SLOT and p.index == register for p in parts[first : first + targets]):
            break
    return told


def elements(address: int, count: int, dtype: Dtype) -> Values:
    """Memory as an array, not copied."""
    stored: np.dtype[Any] = STORED[dtype]
    if count == 0:
        return np.empty(0, stored)
    memory: Any = (c_char * (count * stored.itemsize)).from_address(address)
    return np.frombuffer(memory, stored)


def reduce(values: Sequence[Values], op: int, dtype: Dtype) -> Values:
    """All of them, in the order listed; bfloat16 in float32, rounded once."""
    wide = [widen(v) for v in values] if dtype is Dtype.BFLOAT16 else list(values)
    total = wide[0].copy()
    with np.errstate(all="ignore"):
        for value in wide[1:]:
            STEP[op](total, value, out=total)
    return narrow(total) if dtype is Dtype.BFLOAT16 else total


def divide(values: Values, ranks: int, dtype: Dtype) -> None:
    """In place, the end of an average. Integers are divided as C does, towards zero."""
    if dtype is Dtype.BFLOAT16:
        values[:] = narrow(widen(values) / np.float32(ranks))
    elif dtype in (Dtype.INT32, Dtype.INT64):
        values[:] = np.sign(values) * (np.abs(values) // ranks)
    else:
        values /= ranks


def widen(bits: Values) -> Values:
    """bfloat16 bits as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrow(values: Values) -> Values:
    """float32 as bfloat16 bits, rounded to nearest, ties to even; a NaN stays one."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), (bits >> 16).astype(np.uint16) | np.uint16(0x40), rounded)
