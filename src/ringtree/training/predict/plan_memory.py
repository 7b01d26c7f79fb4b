"""The memory of a plan's fullest rank: what it holds between two steps, what ZeRO gathers on top, and what its
forward passes save."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ringtree.training.core.memory import most_gathered_nbytes, most_held
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.saved import most_saved_nbytes


@dataclass(frozen=True)
class PlanMemory:
    """The predicted bytes of the rank that has most of each kind."""

    plan: TrainingPlan

    @cached_property
    def held_nbytes(self) -> int | None:
        """The bytes of parameters, gradients and the optimizer's state between two steps; None for asynchronous
        training."""
        return most_held(self.plan).in_all if self.plan.layout.staleness is None else None

    @cached_property
    def saved_nbytes(self) -> int | None:
        """The bytes that forward passes save for the backward passes; None for asynchronous training."""
        return most_saved_nbytes(self.plan) if self.plan.layout.staleness is None else None

    @cached_property
    def gathered_nbytes(self) -> int:
        """The bytes of whole parameters and gradients that ZeRO 2 and 3 hold on top within a step."""
        return most_gathered_nbytes(self.plan)

    @property
    def is_known(self) -> bool:
        """Whether `needed_nbytes` are all that a rank needs."""
        return self.held_nbytes is not None

    def needed_nbytes(self, saved: bool) -> int:
        """All bytes that are known; `saved`: with those that forward passes save."""
        return (self.held_nbytes or 0) + self.gathered_nbytes + (self.saved_nbytes or 0) * saved
