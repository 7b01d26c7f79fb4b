"""Naive layer split (ours, by torch.fx): each rank has some of the layers, and a batch goes through them whole, one
rank after another.

- The model's graph is traced and cut before certain layers. Where a value crosses a cut, a pass puts a Send at the end
  of the part that makes it and a Recv before its first use in the part that uses it (cut_pass.py).
- Forward, a Recv waits for the part before; backward, a Send waits for its value's gradient, which the Recv sends back
  (send_receive.py). One rank is at work at a time.

Bytes of a step, over p ranks, with A bytes of the activations between two layers of a batch's rows: 2(p-1) A. A rank
computes 1/p of the time, and waits p - 1 times as long.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringtree.training.core.layout import LayoutError
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import activations_nbytes
from ringtree.training.strategies.layers import pipeline
from ringtree.training.strategies.strategy import Strategy, Traffic, by_name


def used(plan: TrainingPlan) -> bool:
    """Whether a pipeline of the naive schedule divides the layers."""
    return plan.layout.pp > 1 and plan.layout.schedule == "naive"


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless each rank has a layer and the batch stays whole."""
    layout = plan.layout
    if not used(plan):
        return
    if layout.pp > plan.shape.layers:
        raise LayoutError(f"{plan.shape.layers} layers cannot be divided among {layout.pp} ranks (pp): use more layers")
    if layout.micro_batches > 1:
        raise LayoutError(
            f"the naive schedule takes a batch whole, and there are {layout.micro_batches} micro-batches: use "
            "--schedule gpipe, 1f1b or interleaved"
        )
    if plan.shape.experts:
        raise LayoutError("the naive schedule traces shapes alone, and where tokens go depends on values (experts)")
    divided = {"tp": layout.tp > 1, "cp": layout.cp > 1, "ep": layout.ep > 1, "zero": layout.zero > 0}
    for option in (option for option, asked in divided.items() if asked):
        raise LayoutError(f"the naive schedule cuts the graph of whole layers, and {option} divides them")


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """Activations forward and their gradients backward, over each of the p - 1 cuts."""
    nbytes = (plan.layout.pp - 1) * activations_nbytes(plan)
    yield Traffic(pipeline.ACTIVATIONS, "send", "pp", plan.layout.pp, nbytes)
    yield Traffic(pipeline.GRADIENTS, "send", "pp", plan.layout.pp, nbytes)


_apply, _passes = by_name("layers.layer_split_step", "apply"), by_name("layers.layer_split_step", "LayerSplit")
STRATEGY = Strategy("layer split", "pp", used, check, _apply, traffic, pipeline.calls, forward_backward=_passes)
