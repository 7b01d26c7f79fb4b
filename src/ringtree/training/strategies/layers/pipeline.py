"""Pipeline parallelism (torch.distributed.pipelining): each rank has some of the layers, and the rows go through the
ranks in micro-batches, so that all of them are at work on different ones.

- The layers are cut into as many stages as there are ranks, in order; the first has the embedding, too, the last the
  scores. Interleaved: twice as many, and rank k has the stages k and k + p.
- Forward, a stage sends what it made of a micro-batch to the next one; backward, the gradient of that to the one
  before. GPipe sends all micro-batches forward, then all backward; 1F1B goes backward as soon as it can, and so holds
  the activations of p micro-batches at most.
- The loss is the last stage's. Gradients are summed up over the micro-batches, and only then reduced over other axes.

Bytes of a step, over S stages, with A bytes of the activations between two layers of a batch's rows, on t tensor
parallel ranks: 2(S-1) t A, for any number of micro-batches, and 2(S-1) A where those ranks divide the positions (sp). A
rank waits, as a share of what it computes, (p-1)/m of the time over p ranks and m micro-batches; interleaved,
(p-1)/(2m), and (2p-1-m)/(2m) in fewer micro-batches than ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ringtree.ir import units
from ringtree.training.core.layout import LayoutError
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import activations_nbytes, micro_batch_nbytes
from ringtree.training.strategies.layers.micro_batches import fewest_micro_batches, has_even_rounds
from ringtree.training.strategies.layers.pipeline_order import STAGES_A_RANK
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic, by_name

ACTIVATIONS, GRADIENTS = "activations", "their gradients"


def stages(plan: TrainingPlan) -> int:
    """Number of stages over all ranks."""
    return plan.layout.pp * STAGES_A_RANK[plan.layout.schedule]


def layers(plan: TrainingPlan, stage: int) -> range:
    """Indices of a stage's layers."""
    return range(stage * plan.shape.layers // stages(plan), (stage + 1) * plan.shape.layers // stages(plan))


def used(plan: TrainingPlan) -> bool:
    """Whether a pipeline of micro-batches divides the layers."""
    return plan.layout.pp > 1 and plan.layout.schedule != "naive"


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless layers suffice for the stages, and micro-batches for the schedule."""
    layout = plan.layout
    if not used(plan):
        return
    if stages(plan) > plan.shape.layers:
        raise LayoutError(f"{plan.shape.layers} layers cannot be cut into {stages(plan)} stages: use more layers")
    rows = plan.settings.batch // layout.pieces
    if layout.schedule == "1f1b" and layout.micro_batches < layout.pp:
        enough = fewest_micro_batches(rows, layout.pp, layout.schedule)
        remedy = f"--micro-batches {enough}" if enough >= layout.pp else "a larger --batch"
        raise LayoutError(
            f"1f1b keeps {layout.pp} stages at work with at least as many micro-batches, and there are "
            f"{layout.micro_batches} of the {units.count(rows, 'row')} of a rank: use {remedy}, or --schedule gpipe"
        )
    if layout.schedule == "interleaved" and not has_even_rounds(layout.micro_batches, layout.pp):
        raise LayoutError(
            f"{layout.micro_batches} micro-batches cannot be divided into rounds of about {layout.pp}, as the "
            f"interleaved schedule does: use a multiple of {layout.pp}"
        )


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """Activations forward and their gradients backward, between neighboring stages."""
    copies = 1 if plan.layout.sp else plan.layout.tp
    nbytes = (stages(plan) - 1) * copies * activations_nbytes(plan)
    yield Traffic(ACTIVATIONS, "send", "pp", plan.layout.pp, nbytes)
    yield Traffic(GRADIENTS, "send", "pp", plan.layout.pp, nbytes)


def calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """A message forward and one back for each micro-batch, over each cut before and behind a stage of the rank's."""
    layout, cuts = plan.layout, range(stages(plan) - 1)
    nbytes = micro_batch_nbytes(plan) // (layout.tp if layout.sp else 1)
    ends = Counter((cut % layout.pp, (cut + 1) % layout.pp) for cut in cuts)
    for (low, high), times in ends.items():
        if position in (low, high):
            yield RankCalls(ACTIVATIONS, "send", "pp", times * layout.micro_batches, nbytes, (low, high))
            yield RankCalls(GRADIENTS, "send", "pp", times * layout.micro_batches, nbytes, (high, low))


_apply, _passes = by_name("layers.pipeline_step", "apply"), by_name("layers.pipeline_step", "Pipeline")
STRATEGY = Strategy("pipeline", "pp", used, check, _apply, traffic, calls, forward_backward=_passes)
