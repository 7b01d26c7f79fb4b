"""The training text: the source of Python's standard library, which is on any machine that runs this, byte by byte."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

TEXT_NBYTES = 4 << 20


@cache
def text() -> Tensor:
    """The text, [bytes] of uint8."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return torch.frombuffer(bytearray(b"\n".join(f.read_bytes() for f in files)[:TEXT_NBYTES]), dtype=torch.uint8)


def batch(step: int, rows: int, context: int, seed: int) -> tuple[Tensor, Tensor]:
    """The rows of a step, and the byte that follows each of theirs: [rows, context] both, int64. A step's rows are the
    same in every layout, and from every first step of the training. ValueError: if the text is shorter than a row."""
    if context >= len(text()) - 1:
        raise ValueError(f"a sequence of {context:,} bytes is longer than the text, which has {len(text()):,}")
    draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(text()) - context - 1, (rows,), generator=draw)
    drawn = torch.stack([text()[s : s + context + 1] for s in starts.tolist()]).long()
    return drawn[:, :-1], drawn[:, 1:]
