"""ZeRO 2 (torch's FSDP2, which keeps parameters after forward): gradients are divided, too.

- Each rank keeps a part of every parameter, of its gradient and of the optimizer's state, along their first dimension,
  and changes its part only.
- A block's parameters are gathered (all_gather) before the step's first forward pass through it, and given up after
  its last backward pass: in between a rank holds the whole model.
- After each backward pass through a block its gradients are averaged and divided (reduce_scatter); in a pipeline only
  when all are made, for torch's stages add up whole ones.

Bytes a rank receives in a step, over n ranks, with P bytes of parameters and m micro-batches: (n-1)/n (1 + m) P; of a
pipeline's, P being those of its stages, (n-1)/n 2 P. What n does not divide is filled up: a parameter of r rows counts
as one of n ceil(r/n). Experts (expert_parallel.py) are divided among the ranks that have the same ones, and count with
as many in n's place.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import padded_nbytes
from ringtree.training.strategies.strategy import Strategy, Traffic, by_name


def used(plan: TrainingPlan) -> bool:
    return plan.layout.zero == 2


def check(plan: TrainingPlan) -> None:
    """What there is to say of ZeRO, ZeRO 1 says."""


def reductions(plan: TrainingPlan) -> int:
    """How often in a step gradients are divided."""
    return plan.layout.micro_batches if plan.layout.pp == 1 else 1


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    for whose, axis, ranks, nbytes in divided(plan):
        yield Traffic(f"{whose}parameters", "all_gather", axis, ranks, nbytes)
        yield Traffic(f"{whose}gradients", "reduce_scatter", axis, ranks, nbytes * reductions(plan))


def divided(plan: TrainingPlan) -> Iterable[tuple[str, str, int, int]]:
    """What is divided: whose it is, on which axis's groups of so many ranks, and its bytes."""
    data, same = plan.layout.size("data"), plan.layout.size("expert_data")
    yield "", "data", data, padded_nbytes(plan, data)
    if plan.shape.experts:
        yield "experts' ", "expert_data", same, padded_nbytes(plan, same, experts=True)


_apply, _passes = by_name("data.shards", "keep"), by_name("data.shards", "forward_backward")
STRATEGY = Strategy("ZeRO 2", "zero", used, check, _apply, traffic, forward_backward=_passes)
