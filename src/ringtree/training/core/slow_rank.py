"""A rank whose computation takes longer than the others', to show what waits for it."""

from __future__ import annotations

import time
from typing import Any

from torch import nn

PASSES = 3
"""What a step computes, in forward passes: a backward is two."""


def slow_down(model: nn.Module, factor: float) -> None:
    """After each forward it sleeps, for as long as a step that takes `factor` times what this one's computation does
    would still take. The processor's time counts, so that it is as much slower on a busy machine."""
    begun_s = 0.0

    def begin(*_: Any) -> None:
        nonlocal begun_s
        begun_s = time.thread_time()

    def end(*_: Any) -> None:
        time.sleep((factor - 1) * PASSES * (time.thread_time() - begun_s))

    model.register_forward_pre_hook(begin)
    model.register_forward_hook(end)
