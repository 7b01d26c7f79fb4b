"""Bytes of activations that the forward pass saves for the backward pass. Needs no torch.

They are those that torch's autograd keeps of this model, with attention that keeps no matrix of scores: 16 vectors of
the width for a token in a block, where Korthikanti et al. (MLSys 2023, section 4) have 17 and the masks of dropout. Of
the 16 are 2 keys and values, of fewer heads fewer elements, and 8 those between the dense layers: in and out of the
GELU. Gated layers keep four vectors of the width between them: into and out of the SiLU, what that is multiplied with,
and the product.

In place of dense layers a block of experts has, for each choice of a token, those layers' vectors, what goes in, what
comes out, and that times its gate; and the router's likelihoods, gates and numbers of tokens. Tokens are taken to
choose experts evenly, and none to be dropped.

Blocks that are computed again keep their inputs alone, a vector of a token each; in the backward pass one block at a
time has all that it needs.
"""

from __future__ import annotations

from itertools import accumulate

from ringtree.training.core.placement import layers
from ringtree.training.core.plan import FLOAT_NBYTES, Shape, TrainingPlan
from ringtree.training.core.sizes import micro_batch_nbytes
from ringtree.training.strategies.layers.pipeline_order import first_passes, order

DENSE_VECTORS, GATED_VECTORS = 2, 4
"""Vectors of a token between the dense layers, without a gate and with one."""
TOKEN_NBYTES = 8
"""A byte of the text is an int64 to torch."""
NUMBER_NBYTES = 8
"""So is the number of a token or an expert."""


def most_saved_nbytes(plan: TrainingPlan) -> int:
    """The saved bytes of the rank that has the most. ValueError for asynchronous training."""
    return max(saved_by_position(plan))


def saved_by_position(plan: TrainingPlan) -> tuple[int, ...]:
    """The saved bytes of the ranks at each position of "pp", when they have most; with those of a block that is
    computed again. ValueError for asynchronous training."""
    if plan.layout.staleness is not None:
        raise ValueError("activations are predicted of synchronous training")
    return tuple(kept_nbytes(plan, at) + again_nbytes(plan, at) for at in range(plan.layout.pp))


def kept_nbytes(plan: TrainingPlan, position: int) -> int:
    """The most that a rank at a position of "pp" keeps of forward passes at once, by the order of its passes."""
    layout = plan.layout
    chunks = [len(part) * _kept_in_a_block_nbytes(plan) for part in layers(plan, position)]
    chunks[-1] += _scores_nbytes(plan, position)
    if layout.pp == 1:
        return sum(chunks)
    if len(chunks) == 1:  # no backward pass saves anything, and each forward pass behind them follows one
        return first_passes(layout, position) * chunks[0]
    passes = order(layout, position)
    return max(accumulate((-1 if one.backward else 1) * chunks[one.stage // layout.pp] for one in passes))


def again_nbytes(plan: TrainingPlan, position: int) -> int:
    """The bytes on top while a block of such a rank is computed again, behind whose last one the scores' are used
    up."""
    return max(0, block_nbytes(plan) - _kept_in_a_block_nbytes(plan) - _scores_nbytes(plan, position))


def _kept_in_a_block_nbytes(plan: TrainingPlan) -> int:
    """The bytes of a micro-batch that a block keeps from its forward to its backward pass."""
    if not plan.layout.recompute:
        return block_nbytes(plan)
    return micro_batch_nbytes(plan) // _lengthwise(plan)


def block_nbytes(plan: TrainingPlan) -> int:
    """The bytes of a micro-batch that the backward pass of one block needs."""
    layout, shape, tokens = plan.layout, plan.shape, plan.rows * plan.positions
    lengthwise = _lengthwise(plan)
    queries = 3 if layout.cp > 1 and layout.context == "ulysses" else 2  # and as large, what attention makes
    attention = queries * shape.query_width + 2 * shape.key_value_width
    dense = 0 if shape.experts else _between(shape)
    whole = 2 * tokens + 2 * tokens // lengthwise
    elements = whole * shape.width + tokens * (attention + dense) // layout.tp
    statistics = 4 * tokens // lengthwise + tokens * shape.heads // layout.tp  # of norms and of attention
    dense_nbytes = plan.element_nbytes * elements + FLOAT_NBYTES * statistics
    return dense_nbytes + (_experts_nbytes(plan) if shape.experts else 0)


def _between(shape: Shape) -> int:
    """The elements of a token between the dense layers, or between those of an expert."""
    return (GATED_VECTORS if shape.gated else DENSE_VECTORS) * shape.feed_forward_width


def _experts_nbytes(plan: TrainingPlan) -> int:
    """The bytes of a micro-batch in a layer of experts."""
    shape, tokens = plan.shape, plan.rows * plan.positions
    choices = tokens * shape.top_k
    gates = choices + (choices + tokens if shape.top_k > 1 else 0)  # several add up to 1: before that, and their sum
    elements = choices * (3 * shape.width + _between(shape)) + tokens * shape.experts + gates
    orders = 4 if plan.layout.ep > 1 else 2  # of choices by expert, and there and back of those that came from others
    return plan.element_nbytes * elements + NUMBER_NBYTES * (1 + orders) * choices + FLOAT_NBYTES * shape.experts


def _scores_nbytes(plan: TrainingPlan, position: int) -> int:
    """The saved bytes of a micro-batch behind the last block, where that is: the norm, the scores, the wanted bytes of
    the text."""
    if position < plan.layout.pp - 1:
        return 0
    shape, tokens = plan.shape, plan.rows * plan.positions
    elements = shape.width + shape.vocabulary // plan.layout.tp
    normed_nbytes = plan.element_nbytes * shape.width + 2 * FLOAT_NBYTES  # and its statistics
    return tokens * (plan.element_nbytes * elements + TOKEN_NBYTES) + tokens // _lengthwise(plan) * normed_nbytes


def _lengthwise(plan: TrainingPlan) -> int:
    """The sequence parallel ranks, which divide positions between the divided layers."""
    return plan.layout.tp if plan.layout.sp else 1
