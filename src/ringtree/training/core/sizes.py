"""Sizes of a model's parts, of which the formulas of the strategies are made."""

from __future__ import annotations

from functools import cache
from math import ceil, prod

from ringtree.training.core.plan import Shape, TrainingPlan

Shapes = dict[str, tuple[int, ...]]


def parameters(plan: TrainingPlan) -> int:
    """The number of parameters of the whole model."""
    return sum(prod(size) for size in shapes(plan.shape).values())


def parameters_nbytes(plan: TrainingPlan) -> int:
    """Bytes of the whole model's parameters."""
    return plan.element_nbytes * parameters(plan)


def activations_nbytes(plan: TrainingPlan) -> int:
    """The bytes that one layer gives to the next in a step, of all rows: a vector of `width` for each position."""
    return plan.element_nbytes * plan.settings.batch * plan.shape.context * plan.shape.width


def micro_batch_nbytes(plan: TrainingPlan) -> int:
    """The bytes that one layer gives to the next on one rank, of one micro-batch: a vector of `width` for each of the
    rank's positions."""
    return plan.element_nbytes * plan.rows * plan.positions * plan.shape.width


def shapes(shape: Shape) -> Shapes:
    """The shape of every parameter, by its name, in the model's order."""
    width, vocabulary = shape.width, shape.vocabulary
    norm: Shapes = {"weight": (width,), "bias": (width,)}
    attention: Shapes = {"query.weight": (shape.query_width, width)}
    attention |= {f"{name}.weight": (shape.key_value_width, width) for name in ("key", "value")}
    attention |= {"joined.weight": (width, shape.query_width), "joined.bias": (width,)}
    dense = _experts(shape) if shape.experts else _dense(shape)
    block = {"before_attention": norm, "before_dense": norm, "attention": attention, "dense": dense}
    parts: dict[str, Shapes] = {
        "embedding": {"bytes.weight": (vocabulary, width), "places.weight": (shape.context, width)},
        **{f"blocks.{k}.{name}": part for k in range(shape.layers) for name, part in block.items()},
        "norm": norm,
        "scores": {"weight": (vocabulary, width), "bias": (vocabulary,)},
    }
    if shape.tied:
        del parts["scores"]["weight"]  # the embedding's
    return {f"{part}.{name}": its for part, names in parts.items() for name, its in names.items()}


def _dense(shape: Shape) -> Shapes:
    width, wide = shape.width, shape.feed_forward_width
    if shape.gated:
        return {"gate.weight": (wide, width), "up.weight": (wide, width), "down.weight": (width, wide)}
    return {"up.weight": (wide, width), "up.bias": (wide,), "down.weight": (width, wide), "down.bias": (width,)}


def _experts(shape: Shape) -> Shapes:
    n, width, wide = shape.experts, shape.width, shape.feed_forward_width
    router: Shapes = {"router.weight": (n, width)}
    if shape.gated:
        stacks: Shapes = {"gate": (n, width, wide), "up": (n, width, wide), "down": (n, wide, width)}
    else:
        stacks = {"up": (n, width, wide), "up_bias": (n, wide), "down": (n, wide, width), "down_bias": (n, width)}
    return router | {f"experts.{name}": its for name, its in stacks.items()}


VOCABULARY_ROWS = ("embedding.bytes.weight", "scores.weight", "scores.bias")
COLUMNS = (*VOCABULARY_ROWS, "query.weight", "key.weight", "value.weight", "gate.weight", "up.weight", "up.bias")
ROWS = ("joined.weight", "down.weight")
"""The parameters that tensor parallel ranks divide, along their first and their second dimension."""
EXPERTS = ".experts."
"""A part of the name of every parameter that is a stack of all experts'."""


def held(plan: TrainingPlan) -> Shapes:
    """The shape of every parameter's part on one of the tensor parallel ranks, by its name."""
    return _held(plan.shape, plan.layout.tp)


@cache
def _held(shape: Shape, tp: int) -> Shapes:
    its = shapes(shape)
    for name, (first, *rest) in its.items():
        if name.endswith(COLUMNS):
            its[name] = (first // tp, *rest)
        if name.endswith(ROWS):
            its[name] = (first, *(size // tp for size in rest))
    return its


def held_nbytes(plan: TrainingPlan, named: str = "") -> int:
    """Bytes of the parameters that the ranks of one model hold together: each of `tp` its part, or the whole of one;
    only parameters whose names contain `named`."""
    return plan.element_nbytes * plan.layout.tp * sum(prod(size) for name, size in held(plan).items() if named in name)


def padded_nbytes(plan: TrainingPlan, ranks: int, experts: bool = False) -> int:
    """Bytes as of `held_nbytes`, each dimension that `ranks` divide under ZeRO 2 and 3 filled up so that they can: of
    experts, or of all else. Of experts, `ep` ranks have a share each, which `ranks` ranks divide."""
    groups = plan.layout.ep if experts else 1
    mine = [(name, own_part(plan, name, size)) for name, size in held(plan).items() if (EXPERTS in name) == experts]
    elements = sum(ranks * _largest_shard(name, size, ranks) for name, size in mine)
    return plan.element_nbytes * plan.layout.tp * groups * elements


def own_part(plan: TrainingPlan, name: str, size: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a parameter on one of the expert parallel ranks: of a stack of experts, its share of them."""
    return (size[0] // plan.layout.ep, *size[1:]) if EXPERTS in name else size


def dividing_ranks(plan: TrainingPlan, name: str) -> int:
    """The number of ranks that divide a parameter under ZeRO 2 and 3: of experts, those that have the same."""
    return plan.layout.size("expert_data" if EXPERTS in name else "data")


def shard_dimension(stack: tuple[int, ...], ranks: int) -> int:
    """The dimension along which `ranks` divide a rank's stack of experts under ZeRO 2 and 3: the first that they divide
    evenly, else dimension 0, which is filled up. All else is divided along dimension 0."""
    return next((dimension for dimension, length in enumerate(stack) if length % ranks == 0), 0)


def largest_shard(plan: TrainingPlan, name: str, size: tuple[int, ...]) -> int:
    """The elements of a parameter on the rank that has most of it under ZeRO 2 and 3. `size`: its shape in `held`."""
    return _largest_shard(name, own_part(plan, name, size), dividing_ranks(plan, name))


def _largest_shard(name: str, mine: tuple[int, ...], ranks: int) -> int:
    dimension = shard_dimension(mine, ranks) if EXPERTS in name else 0
    return ceil(mine[dimension] / ranks) * prod(mine[:dimension]) * prod(mine[dimension + 1 :])


def norms_nbytes(plan: TrainingPlan) -> int:
    """Bytes of the norms' parameters, two vectors each: two norms in a block, and one before the scores."""
    return plan.element_nbytes * (2 * plan.shape.layers + 1) * 2 * plan.shape.width


def capacity(shape: Shape, tokens: int) -> int:
    """The most of `tokens` tokens, which go forward at once, that an expert takes."""
    return ceil(shape.capacity_factor * tokens * shape.top_k / shape.experts)
