"""The rows of a step: sequences drawn from the training text, byte by byte."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from ringtree.training.core.text import check_length, text


@cache
def text_tensor() -> Tensor:
    """The text, [bytes] of uint8."""
    return torch.frombuffer(bytearray(text()), dtype=torch.uint8)


def batch(step: int, rows: int, context: int, seed: int) -> tuple[Tensor, Tensor]:
    """The rows of a step, and the byte that follows each of theirs: [rows, context] both, int64. A step's rows are the
    same in every layout, and from every first step of the training. ValueError: if the text is shorter than a row."""
    check_length(context)
    whole = text_tensor()
    draw = torch.Generator().manual_seed(seed * 1_000_003 + step)
    starts = torch.randint(len(whole) - context - 1, (rows,), generator=draw)
    drawn = torch.stack([whole[s : s + context + 1] for s in starts.tolist()]).long()
    return drawn[:, :-1], drawn[:, 1:]
