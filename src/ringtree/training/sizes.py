"""How large the parts of a model are: what the formulas of the strategies are made of."""

from __future__ import annotations

from ringtree.training.plan import Plan

ELEMENT_NBYTES = 4
"""Of float32, which parameters, gradients and activations are."""


def block_parameters(width: int) -> int:
    """Of one block: two norms, queries, keys, values and what joins the heads, two dense layers of 4 x width."""
    norms = 2 * 2 * width
    attention = 4 * width * width + width
    dense = 2 * 4 * width * width + 4 * width + width
    return norms + attention + dense


def parameters(plan: Plan) -> int:
    """Of the whole model."""
    shape = plan.shape
    ends = shape.vocabulary * shape.width + shape.context * shape.width  # what is known of a byte, and of its place
    scores = 2 * shape.width + shape.width * shape.vocabulary + shape.vocabulary
    return ends + shape.layers * block_parameters(shape.width) + scores


def parameters_nbytes(plan: Plan) -> int:
    return ELEMENT_NBYTES * parameters(plan)


def activations_nbytes(plan: Plan) -> int:
    """What one layer hands to the next in a step, of all rows: a vector of `width` for each place."""
    return ELEMENT_NBYTES * plan.settings.batch * plan.shape.context * plan.shape.width
