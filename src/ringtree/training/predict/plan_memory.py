"""The memory of a plan's fullest rank: what it holds between two steps, what ZeRO gathers on top, and what its
forward passes save."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ringtree.training.core.memory import gathered_by_position, held_by_position
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.saved import saved_by_position


@dataclass(frozen=True, slots=True)
class RankMemory:
    """The predicted bytes of a rank: of parameters, gradients and the optimizer's state between two steps; of whole
    parameters and gradients that ZeRO 2 and 3 hold on top within a step; and those that forward passes save for the
    backward passes. None: not predicted."""

    held_nbytes: int | None
    gathered_nbytes: int
    saved_nbytes: int | None

    def needed_nbytes(self, saved: bool) -> int:
        """All bytes that are known; `saved`: with those that forward passes save."""
        return (self.held_nbytes or 0) + self.gathered_nbytes + (self.saved_nbytes or 0) * saved


@dataclass(frozen=True)
class PlanMemory:
    """The predicted memory of a plan's ranks: of those at each position of "pp", the rank that holds the most."""

    plan: TrainingPlan

    @cached_property
    def by_position(self) -> tuple[RankMemory, ...]:
        """The memory at each position of "pp"."""
        gathered = gathered_by_position(self.plan)
        if not self.is_known:
            return tuple(RankMemory(None, nbytes, None) for nbytes in gathered)
        held, saved = held_by_position(self.plan), saved_by_position(self.plan)
        return tuple(RankMemory(its.in_all, *of) for its, *of in zip(held, gathered, saved, strict=True))

    @property
    def is_known(self) -> bool:
        """Whether all that a rank needs is predicted: asynchronous training's is not."""
        return self.plan.layout.staleness is None

    def fullest(self, saved: bool) -> RankMemory:
        """The memory of the rank that needs most. `saved`: what forward passes save counts; else it is that of the rank
        that has most of it."""
        most = max(self.by_position, key=lambda its: its.needed_nbytes(saved))
        return most if saved or not self.is_known else replace(most, saved_nbytes=max(saved_by_position(self.plan)))
