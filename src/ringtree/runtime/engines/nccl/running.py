"""Runs of grouped programs on torch's tensors, in the order of the caller's stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ringtree.ir.program import Space
from ringtree.runtime.engines.nccl.arithmetic import Arithmetic
from ringtree.runtime.engines.nccl.groups import Compute, GroupedProgram, MemoryRange, Source, TransferGroup

Transfers = Sequence[tuple[int, Any]]
"""(peer, tensor of bytes) each."""


class Run:
    """One run: `input`, `output` are flat tensors of the program's elements, `exchange(sends, receives)` the carrier's.
    `arithmetic` is None where nothing is reduced."""

    def __init__(
        self,
        program: GroupedProgram,
        arithmetic: Arithmetic | None,
        input: torch.Tensor,
        output: torch.Tensor,
        exchange: Callable[[Transfers, Transfers], None],
    ) -> None:
        self._program, self._arithmetic, self._exchange = program, arithmetic, exchange
        scratch = torch.empty(program.scratch, dtype=output.dtype, device=output.device)
        self._memory = {int(Space.INPUT): input, int(Space.OUTPUT): output, int(Space.SCRATCH): scratch}
        self._values: dict[int, torch.Tensor] = {}
        self._like = output

    def run(self, ranks: int) -> None:
        """Runs all steps; an average is over `ranks`."""
        for step in self._program.steps:
            if isinstance(step, TransferGroup):
                self._transfer(step)
            else:
                self._compute(step)
        if self._arithmetic is not None and self._like.numel():
            self._arithmetic.finish(self._like, ranks)

    def _transfer(self, step: TransferGroup) -> None:
        values = self._values
        for r in step.receives:
            values[r.value] = self._empty(r.elements) if r.into is None else self._at(r.into)
        sends = [(peer, values[value].view(torch.uint8)) for peer, value in step.sends]
        receives = [(r.peer, values[r.value].view(torch.uint8)) for r in step.receives if r.elements]
        if sends or receives:
            self._exchange(sends, receives)

    def _compute(self, step: Compute) -> None:
        sources = [self._read(source) for source in step.sources]
        targets = list(step.targets)
        if not step.reduces:
            result = sources[0].clone() if step.apart else sources[0]
            if step.ready:
                targets = targets[1:]
        else:
            assert self._arithmetic is not None
            in_place = targets and len(targets[0].extents) == 1 and not step.apart
            result = self._at(targets.pop(0)) if in_place else self._empty(sources[0].numel())
            if result.numel():
                self._arithmetic.reduce(sources, result)
        for target in targets:
            self._write(target, result)
        if step.kept:
            whole = step.targets and len(step.targets[0].extents) == 1
            view = self._at(step.targets[0]) if whole else result
            for value, shared in step.kept:
                self._values[value] = view if shared else view.clone()

    def _empty(self, elements: int) -> torch.Tensor:
        return torch.empty(elements, dtype=self._like.dtype, device=self._like.device)

    def _at(self, place: MemoryRange) -> torch.Tensor:
        """A place of one extent, or none."""
        start, elements = place.extents[0] if place.extents else (0, 0)
        return self._memory[place.space][start : start + elements]

    def _read(self, source: Source) -> torch.Tensor:
        if isinstance(source, int):
            return self._values[source]
        if len(source.extents) <= 1:
            return self._at(source)
        memory = self._memory[source.space]
        return torch.cat([memory[start : start + n] for start, n in source.extents])

    def _write(self, place: MemoryRange, result: torch.Tensor) -> None:
        memory, at = self._memory[place.space], 0
        for start, n in place.extents:
            target = memory[start : start + n]
            if target.data_ptr() != result.data_ptr():
                target.copy_(result[at : at + n])
            at += n
