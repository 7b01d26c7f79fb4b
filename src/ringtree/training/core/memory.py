"""Bytes that a rank holds between two steps: parameters, gradients and the optimizer's state; and what ZeRO gathers on
top within a step. Needs no torch.

In float32 they are those of torch's optimizers. Of parameters in two bytes the state is that of mixed precision: the
optimizer has a float32 copy of them beside its float32 moments (Rajbhandari et al., ZeRO, SC 2020, section 3.1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from ringtree.training.core.placement import most_parameters, shapes_at
from ringtree.training.core.plan import ELEMENT_NBYTES, STATE, TrainingPlan
from ringtree.training.core.sizes import dividing_ranks, largest_shard, own_part, shapes


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes of tensors on a rank between two steps. A parameter server's part counts as any other: weights are
    parameters."""

    parameters: int
    gradients: int
    optimizer_state: int

    @property
    def in_all(self) -> int:
        """Bytes of parameters, gradients and optimizer state together."""
        return self.parameters + self.gradients + self.optimizer_state


def most_held(plan: TrainingPlan) -> Held:
    """The memory of the rank that holds the most. ValueError as `held_by_position`."""
    return max(held_by_position(plan), key=lambda its: its.in_all)


def held_by_position(plan: TrainingPlan) -> tuple[Held, ...]:
    """The memory of the ranks at each position of "pp", of each the rank that holds the most; without AdamW's numbers
    of steps. ValueError for asynchronous training, where a server has a part of the weights."""
    if plan.layout.staleness is not None:
        raise ValueError("the memory of asynchronous training is not predicted: expected synchronous steps")
    return _held_by_position(_of_whole_batches(plan))


def _of_whole_batches(plan: TrainingPlan) -> TrainingPlan:
    """The plan without what changes nothing here: micro-batches, and whether blocks are computed again."""
    return replace(plan, layout=replace(plan.layout, micro_batches=1, recompute=False))


@lru_cache(1024)
def _held_by_position(plan: TrainingPlan) -> tuple[Held, ...]:
    return tuple(_held_at(plan, position) for position in range(plan.layout.pp))


def _held_at(plan: TrainingPlan, position: int) -> Held:
    parameters = updated = most_parameters(plan, position)
    if plan.layout.zero == 1:
        undivided, its = shapes(plan.shape), shapes_at(plan, position)
        dealt = [(prod(undivided[name]), prod(own_part(plan, name, size))) for name, size in its]
        updated = _fullest(dealt, plan.layout.size("data"))
    element_nbytes, float_nbytes = plan.element_nbytes, ELEMENT_NBYTES["float32"]
    copied = element_nbytes < float_nbytes
    state_nbytes = float_nbytes * (len(STATE[plan.settings.optimizer]) + copied)
    return Held(element_nbytes * parameters, element_nbytes * parameters, state_nbytes * updated)


def most_gathered_nbytes(plan: TrainingPlan) -> int:
    """The gathered bytes of the rank that has the most."""
    return max(gathered_by_position(plan))


def gathered_by_position(plan: TrainingPlan) -> tuple[int, ...]:
    """The bytes of whole parameters and whole gradients that the ranks at each position of "pp" hold within a step
    beside their shares of them: of ZeRO 2 and 3."""
    return _gathered_by_position(_of_whole_batches(plan))


@lru_cache(1024)
def _gathered_by_position(plan: TrainingPlan) -> tuple[int, ...]:
    positions = range(plan.layout.pp)
    return tuple(_gathered_nbytes(plan, position) if plan.layout.zero >= 2 else 0 for position in positions)


def _gathered_nbytes(plan: TrainingPlan, position: int) -> int:
    """ZeRO 2 keeps all parameters from the first forward pass to the last backward pass. ZeRO 3 has a block and the
    next one, and the part outside of blocks. Both have a block's whole gradients until they are divided. Stages of a
    pipeline keep all parameters, and add up all gradients."""
    layout, outside, blocks, shares = plan.layout, 0, defaultdict[str, int](int), 0
    for name, size in shapes_at(plan, position):
        ranks, share = dividing_ranks(plan, name), largest_shard(plan, name, size)
        shares += share
        if name.startswith("blocks."):
            blocks[name.split(".")[1]] += ranks * share
        else:
            outside += ranks * share
    whole = outside + sum(blocks.values())
    parameters = whole if layout.zero == 2 or layout.pp > 1 else outside + sum(sorted(blocks.values())[-2:])
    gradients = whole - shares if layout.pp > 1 else max(outside, *blocks.values())
    return plan.element_nbytes * (parameters + gradients)


def _fullest(sizes: Iterable[tuple[int, int]], ranks: int) -> int:
    """The most elements of a rank where whole tensors are dealt out, the largest first, each to the rank that has the
    fewest: as torch's ZeroRedundancyOptimizer does it, by the elements that tensor parallel ranks have together. Of
    each tensor: these, and those of one rank."""
    each, mine = [0] * ranks, [0] * ranks
    for size, part in sorted(sizes, key=lambda one: one[0], reverse=True):
        fewest = each.index(min(each))
        each[fewest] += size
        mine[fewest] += part
    return max(mine)
