"""The reference engine's plans: encoded programs decoded again, and bound to sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Kind, Space
from ringtree.runtime.types import OPS, Dtype, supported


class ChunkRange(NamedTuple):
    """An operand: `count` chunks of `space` from `index`, with the sizes of the whole vector's chunks at `label`."""

    space: int
    index: int  # type: ignore[assignment]  # as in ir.program.Operand
    label: int
    count: int  # type: ignore[assignment]


class DecodedInstruction(NamedTuple):
    """An instruction. `readers`: for each target that is a slot, how many signals follow the write. `chunk`
    is the one that it is about, -1 for several; `peer` of a copy or a reduction whose message it reads."""

    kind: int
    peer: int
    register: int
    targets: tuple[ChunkRange, ...]
    sources: tuple[ChunkRange, ...]
    readers: dict[int, int]
    chunk: int


@dataclass(frozen=True, slots=True)
class PreparedProgram:
    """A program bound to sizes; see ringtree._native.Group.prepare. All sizes are in elements."""

    steps: tuple[DecodedInstruction, ...]
    sizes: list[int]
    offsets: dict[int, list[int]]
    window: int
    scratch: int
    dtype: Dtype
    op: int
    output_count: int

    @property
    def windows(self) -> int:
        """The number of times that the program is run: once even for an empty call, so that all ranks take part."""
        return max(-(-max(self.sizes, default=0) // self.window), 1)

    def lengths(self, part: ChunkRange, window: int) -> list[int]:
        """Elements of each of the part's chunks that lie in the window."""
        low = window * self.window
        sizes = self.sizes[part.label : part.label + part.count]
        return [min(max(size - low, 0), self.window) for size in sizes]

    def extents(self, part: ChunkRange, window: int) -> list[tuple[int, int]]:
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
) -> PreparedProgram:
    """The plan of Program.encode's two tables, bound to sizes. ValueError for a reduction that the type lacks."""
    name = next((name for name, code in OPS.items() if code == op), None)
    if name is not None and not supported(Dtype(dtype), name):
        raise ValueError(f"{name} of {Dtype(dtype).label} is not supported")
    parts = [ChunkRange(*row) for row in operands.tolist()]
    heads = instructions.tolist()
    steps: list[DecodedInstruction] = []
    for at, (kind, peer, register, first, targets, sources, _) in enumerate(heads):
        ends = (first + targets, first + targets + sources)
        mine = tuple(parts[first : ends[0]])
        readers = {t.index: _readers(heads[at + 1 :], parts, t.index) for t in mine if t.space == Space.SLOT}
        steps.append(DecodedInstruction(kind, peer, register, mine, tuple(parts[ends[0] : ends[1]]), readers, -1))
    _find_subjects(steps)
    largest = int(sizes.max(initial=0))
    offsets = {
        int(Space.INPUT): input_offsets.tolist(),
        int(Space.OUTPUT): output_offsets.tolist(),
        int(Space.SCRATCH): [i * largest for i in range(scratch)],
    }
    written = [p for s in steps for p in s.targets if p.space == Space.OUTPUT]
    ends_at = [offsets[p.space][p.index + i] + int(sizes[p.label + i]) for p in written for i in range(p.count)]
    return PreparedProgram(
        tuple(steps), sizes.tolist(), offsets, window, scratch * largest, Dtype(dtype), op, max(ends_at, default=0)
    )


def _find_subjects(steps: list[DecodedInstruction]) -> None:
    """Gives each signal the chunk last written to its slot, and each wait the chunk read of its message."""
    staged: dict[int, int] = {}  # slot register -> chunk
    came: dict[int, int] = {}  # message register -> position of its wait
    for at, step in enumerate(steps):
        if step.kind == Kind.SIGNAL:
            steps[at] = step._replace(chunk=staged.get(step.register, -1))
        elif step.kind == Kind.WAIT:
            came[step.register] = at
        elif step.kind in (Kind.COPY, Kind.REDUCE):
            first = step.targets[0]
            chunk = first.label if first.count == 1 else -1
            staged.update({t.index: chunk for t in step.targets if t.space == Space.SLOT})
            waits = [came[s.index] for s in step.sources if s.space == Space.MESSAGE]
            for position in waits:
                steps[position] = steps[position]._replace(chunk=chunk)
            steps[at] = step._replace(chunk=chunk, peer=steps[waits[0]].peer if waits else -1)


def _readers(later: Sequence[Sequence[int]], parts: Sequence[ChunkRange], register: int) -> int:
    """Signals of slot `register` until it is written again."""
    signals = 0
    for kind, _, named, first, targets, *_ in later:
        if kind == Kind.SIGNAL and named == register:
            signals += 1
        if any(p.space == Space.SLOT and p.index == register for p in parts[first : first + targets]):
            break
    return signals
