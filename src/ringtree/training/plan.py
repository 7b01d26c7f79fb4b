"""What is to be trained, and how it is divided: all there is to know before a rank starts. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from ringtree.training.layout import Layout

VOCABULARY = 256
"""Bytes: the text is not cut into words."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A language model's: `layers` blocks of attention by `heads` heads and two dense layers, vectors of `width`,
    sequences of `context` bytes."""

    width: int = 96
    layers: int = 4
    heads: int = 4
    context: int = 64
    vocabulary: int = VOCABULARY


@dataclass(frozen=True, slots=True)
class Settings:
    """`batch`: sequences a step, over all ranks; `rate`: of learning."""

    steps: int = 100
    batch: int = 16
    rate: float = 1e-3
    optimizer: str = "adamw"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    layout: Layout = field(default_factory=Layout)
    shape: Shape = field(default_factory=Shape)
    settings: Settings = field(default_factory=Settings)

    def check(self) -> None:
        """LayoutError where the parts do not go together, with the reason: of each strategy in turn."""
        from ringtree.training.registry import STRATEGIES

        for strategy in STRATEGIES:
            strategy.check(self)

    @property
    def rows(self) -> int:
        """Sequences that go forward through a model at once: a micro-batch's on one of the `pieces`."""
        return self.settings.batch // self.layout.pieces // self.layout.micro_batches
