"""Bytes of activations that the forward pass saves for the backward pass, where none is computed again. Needs no torch.

They are those that torch's autograd keeps of this model, with attention that keeps no matrix of scores: 16 vectors of
the width for a token in a block, where Korthikanti et al. (MLSys 2023, section 4) have 17 and the masks of dropout. Of
the 16 are 2 keys and values, of fewer heads fewer elements, and 8 those between the dense layers: in and out of the
GELU. Gated layers keep four vectors of the width between them: into and out of the SiLU, what that is multiplied with,
and the product.
"""

from __future__ import annotations

from itertools import accumulate

from ringtree.training.core.placement import layers
from ringtree.training.core.plan import FLOAT_NBYTES, TrainingPlan
from ringtree.training.strategies.layers.pipeline_order import first_passes, order

DENSE_VECTORS, GATED_VECTORS = 2, 4
"""Vectors of a token between the dense layers, without a gate and with one."""
TOKEN_NBYTES = 8
"""A byte of the text is an int64 to torch."""


def most_saved_nbytes(plan: TrainingPlan) -> int:
    """The saved bytes of the rank that has the most, when it has most. ValueError for experts, whose tokens their
    router chooses, and for asynchronous training."""
    if plan.shape.experts or plan.layout.staleness is not None:
        raise ValueError("activations are predicted of synchronous training without experts")
    return max(_saved_nbytes(plan, position) for position in range(plan.layout.pp))


def _saved_nbytes(plan: TrainingPlan, position: int) -> int:
    """The most that a rank at a position of "pp" has saved at once, by the order of its passes."""
    layout = plan.layout
    chunks = [len(part) * block_nbytes(plan) for part in layers(plan, position)]
    if position == layout.pp - 1:
        chunks[-1] += _scores_nbytes(plan)
    if layout.pp == 1:
        return sum(chunks)
    if len(chunks) == 1:  # no backward pass saves anything, and each forward pass behind them follows one
        return first_passes(layout, position) * chunks[0]
    passes = order(layout, position)
    return max(accumulate((-1 if one.backward else 1) * chunks[one.stage // layout.pp] for one in passes))


def block_nbytes(plan: TrainingPlan) -> int:
    """The saved bytes of a micro-batch in one block."""
    layout, shape, tokens = plan.layout, plan.shape, plan.rows * plan.positions
    lengthwise = layout.tp if layout.sp else 1  # sequence parallel ranks divide positions between the divided layers
    attention = (3 if layout.cp > 1 and layout.context == "ulysses" else 2) * shape.width + 2 * shape.key_value_width
    dense = (GATED_VECTORS if shape.gated else DENSE_VECTORS) * shape.feed_forward_width
    whole = 2 * tokens + 2 * tokens // lengthwise
    elements = whole * shape.width + tokens * (attention + dense) // layout.tp
    statistics = 4 * tokens // lengthwise + tokens * shape.heads // layout.tp  # of norms and of attention
    return plan.element_nbytes * elements + FLOAT_NBYTES * statistics


def _scores_nbytes(plan: TrainingPlan) -> int:
    """The saved bytes of a micro-batch behind the last block: the norm, the scores, the wanted bytes of the text."""
    shape, tokens = plan.shape, plan.rows * plan.positions
    elements = 2 * shape.width + shape.vocabulary // plan.layout.tp
    return tokens * (plan.element_nbytes * elements + 2 * FLOAT_NBYTES + TOKEN_NBYTES)
