"""ZeRO 2 (torch's FSDP2, which keeps parameters after forward): ranks divide gradients and optimizer state.

- Each rank keeps 1/n of every parameter, gradient and optimizer state, cut along the first dimension, and updates
  this part only. A stack of experts [experts, ...] is cut along its first dimension that n divides.
- all_gather fetches a block's parameters before the step's first forward pass through the block. The rank frees them
  after the last backward pass: in between, a rank holds the whole model.
- reduce_scatter averages and divides a block's gradients after each backward pass through the block. In a pipeline it
  runs once, after all passes, because torch's stages add up whole gradients.

Bytes that a rank receives in a step, over n ranks, with P bytes of parameters and m micro-batches: (1 + m) (n-1)/n P;
in a pipeline, with P bytes of parameters in the rank's stages: 2 (n-1)/n P. Parameters are padded: r rows count as
n ceil(r/n); a stack of experts is only where n divides none of its dimensions. Experts (expert_parallel.py) are divided
among the ranks that have the same experts; for experts, n is the number of these ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ringtree.training.core.placement import shapes_at
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import EXPERTS, dividing_ranks, largest_shard, padded_nbytes
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic, by_name


def used(plan: TrainingPlan) -> bool:
    """Whether the layout asks for ZeRO 2."""
    return plan.layout.zero == 2


def check(plan: TrainingPlan) -> None:
    """Does nothing: `zero1.check` covers all of ZeRO."""


def reductions(plan: TrainingPlan) -> int:
    """Number of reduce_scatters of each gradient in a step."""
    return plan.layout.micro_batches if plan.layout.pp == 1 else 1


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """One all_gather of parameters a step, and a reduce_scatter of gradients for every reduction."""
    for whose, axis, ranks, nbytes in divided(plan):
        yield Traffic(f"{whose}parameters", "all_gather", axis, ranks, nbytes)
        yield Traffic(f"{whose}gradients", "reduce_scatter", axis, ranks, nbytes * reductions(plan))


def divided(plan: TrainingPlan) -> Iterable[tuple[str, str, int, int]]:
    """Yields (owner, axis, ranks, nbytes) of what ranks divide: the dense parameters, then the experts'. Bytes are of
    the whole padded parameters, on the `axis`'s groups of `ranks`."""
    data, same = plan.layout.size("data"), plan.layout.size("expert_data")
    yield "", "data", data, padded_nbytes(plan, data)
    if plan.shape.experts:
        yield "experts' ", "expert_data", same, padded_nbytes(plan, same, experts=True)


def calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """One all_gather of each block's parameters a step, and its reduce_scatters."""
    return calls_of_blocks(plan, position, gathers=1)


def calls_of_blocks(plan: TrainingPlan, position: int, gathers: int) -> Iterable[RankCalls]:
    """Yields `gathers` all_gathers of padded parameters and the reduce_scatters of their gradients: for each block, for
    each block's experts, and for the parameters outside of blocks together."""
    blocks = Counter[tuple[str, str, str]]()
    for name, size in shapes_at(plan, position):
        part = ".".join(name.split(".")[:2]) if name.startswith("blocks.") else ""
        whose, axis = ("experts' ", "expert_data") if EXPERTS in name else ("", "data")
        blocks[whose, axis, part] += plan.element_nbytes * dividing_ranks(plan, name) * largest_shard(plan, name, size)
    alike = Counter((whose, axis, nbytes) for (whose, axis, _), nbytes in blocks.items())
    for (whose, axis, nbytes), times in alike.items():
        yield RankCalls(f"{whose}parameters", "all_gather", axis, times * gathers, nbytes)
        yield RankCalls(f"{whose}gradients", "reduce_scatter", axis, times * reductions(plan), nbytes)


_apply, _passes = by_name("data.shards", "keep"), by_name("data.shards", "forward_backward")
STRATEGY = Strategy("ZeRO 2", "zero", used, check, _apply, traffic, calls, forward_backward=_passes)
