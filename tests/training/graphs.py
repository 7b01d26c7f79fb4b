"""Modules to be cut: steps that each read two of the values before them, in any way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

WIDTH = 6
Spec = Sequence[tuple[str, int, int]]
"""The kind of each step, and the two values that it reads: 0 is the input, k the result of step k."""


class Step(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = KINDS[kind]
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.randn(WIDTH))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.kind(self, a, b)


KINDS: dict[str, Callable[[Step, Tensor, Tensor], Tensor]] = {
    "layer": lambda step, a, b: step.layer(a),
    "add": lambda step, a, b: torch.tanh(a + b),
    "scale": lambda step, a, b: a * step.scale + b,
    "size": lambda step, a, b: step.layer(a.reshape(-1)[: b.shape[0] * WIDTH].view(b.shape[0], -1)),
    "no gradient": lambda step, a, b: a.detach() * b.sign(),
    "unused": lambda step, a, b: step.layer(a.detach()) + b,
}


class Dag(nn.Module):
    def __init__(self, spec: Spec) -> None:
        super().__init__()
        torch.manual_seed(len(spec))
        self.spec = spec
        self.steps = nn.ModuleList(Step(kind) for kind, _, _ in spec)

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for step, (_, a, b) in zip(self.steps, self.spec, strict=True):
            values.append(step(values[a], values[b]))
        return values[-1]
