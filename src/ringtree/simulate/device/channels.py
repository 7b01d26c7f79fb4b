"""Programs over several channels, as NCCL has them: each is a thread block with a part of every chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ringtree.ir.program import Program
from ringtree.simulate.windows import part


def in_channels(programs: Sequence[Program], channels: int) -> tuple[Program, ...]:
    """Programs of one thread each, done by as many thread blocks as there are channels, each on its part of every
    chunk."""
    return tuple(_in_channels(p, channels) for p in programs)


def _in_channels(program: Program, channels: int) -> Program:
    code = program.instructions
    threads = tuple(tuple(part(i, k, channels)._replace(channel=k) for i in code) for k in range(channels))
    return replace(program, chunks=program.chunks * channels, threads=threads)
