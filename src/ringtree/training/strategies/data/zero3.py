"""ZeRO 3 (torch's FSDP2): ranks divide parameters, gradients and optimizer state, and gather one block at a time.

- Each rank keeps 1/n of every parameter, gradient and optimizer state, as in ZeRO 2.
- all_gather fetches a block's parameters before each forward and each backward pass through the block; the rank frees
  the gathered parameters after that pass.
- reduce_scatter averages and divides a block's gradients after each backward pass through the block.
- Embedding, norm and scores form one further block, which is gathered around all others.

Bytes that a rank receives in a step, over n ranks, with P bytes of parameters (padded as in ZeRO 2) and m
micro-batches: 3 m (n-1)/n P.

In a pipeline: (m + 2) (n-1)/n P. A stage keeps gathered parameters from a backward pass to the next forward pass, and
whole gradients to the end of the step. So the first pass and each pass after a forward pass gather, m + 1 in all, and
one reduce_scatter follows the last pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringtree.training.core.plan import TrainingPlan
from ringtree.training.strategies.data.zero2 import calls_of_blocks, check, divided, reductions
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic, by_name


def used(plan: TrainingPlan) -> bool:
    """Whether the layout asks for ZeRO 3."""
    return plan.layout.zero == 3


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """The all_gathers of parameters for all passes of a step, and the reduce_scatters of gradients."""
    for whose, axis, ranks, nbytes in divided(plan):
        yield Traffic(f"{whose}parameters", "all_gather", axis, ranks, nbytes * _gathers(plan))
        yield Traffic(f"{whose}gradients", "reduce_scatter", axis, ranks, nbytes * reductions(plan))


def _gathers(plan: TrainingPlan) -> int:
    """The number of times that a step gathers each parameter."""
    layout = plan.layout
    return 2 * layout.micro_batches if layout.pp == 1 else layout.micro_batches + 1


def calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """The all_gathers of each block's parameters for all passes of a step, and its reduce_scatters."""
    return calls_of_blocks(plan, position, _gathers(plan))


STRATEGY = Strategy("ZeRO 3", "zero", used, check, by_name("data.shards", "give_up"), traffic, calls)
