"""Context parallelism (ours): each rank has a part of the positions of each sequence, through the whole model.

Only attention looks beyond a position. It comes to see the whole sequence

- by `ring` (ring_attention.py): keys and values go round, n-1 times to the next rank, while a rank attends to those
  that are with it; in backward they go round again, and their gradients, as large, after them. Rank r has parts r and
  2n-1-r of 2n, so that all have as much work;
- by `ulysses` (attention.py): queries, keys and values go from positions to heads by one all_to_all, and what attention
  gave goes back by another; in backward both again, in the other direction. Rank r has part r of n, and needs heads
  that n divides. Of fewer heads, keys and values go by an all_to_all of their own.

Every rank's loss is the mean over its own positions, and gradients are averaged over all of "data", as those of
different rows are. Blocks that are computed again do in the backward pass all that they did in forward, once more.

Bytes a rank receives in a step, over n ranks, L layers and queries of A bytes in each (all rows x positions x heads x
width of a head):
ring 6(n-1)/n L A, of which 4 in backward; ulysses 8(n-1)/n^2 L A. Where keys have g of the h heads of queries: ring
6(n-1)/n g/h L A; ulysses (4 + 4 g/h)(n-1)/n^2 L A. Of blocks that are computed again 8 in place of 6, and ulysses one
and a half times as much.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringtree.ir import units
from ringtree.training.core.layout import LayoutError
from ringtree.training.core.placement import layer_count
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import activations_nbytes, micro_batch_nbytes
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic, by_name

KEYS_AND_VALUES, THEIR_GRADIENTS = "keys and values", "gradients of keys and values"
TO_HEADS, TO_POSITIONS = "queries, keys, values for heads", "heads for positions"
QUERIES_TO_HEADS, KEYS_AND_VALUES_TO_HEADS = "queries for heads", "keys and values for heads"
"""Two calls of grouped queries."""


def positions(plan: TrainingPlan, rank: int) -> list[int]:
    """The positions of each sequence that the context parallel rank has."""
    parts = (rank, _parts(plan) - 1 - rank) if is_ring(plan) else (rank,)
    length = plan.shape.context // _parts(plan)
    return [position for part in parts for position in range(part * length, (part + 1) * length)]


def is_ring(plan: TrainingPlan) -> bool:
    """Whether the layout asks for ring attention; otherwise Ulysses."""
    return plan.layout.context == "ring"


def _parts(plan: TrainingPlan) -> int:
    """Into how many parts a sequence is divided."""
    return 2 * plan.layout.cp if is_ring(plan) else plan.layout.cp


def used(plan: TrainingPlan) -> bool:
    """Whether a sequence is divided over two ranks or more."""
    return plan.layout.cp > 1


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless positions, and for Ulysses heads, divide evenly over the ranks."""
    layout, shape, ranks = plan.layout, plan.shape, plan.layout.cp * plan.layout.tp
    if not used(plan):
        return
    if shape.context % _parts(plan):
        raise LayoutError(
            f"a context of {shape.context} positions cannot be divided evenly into {_parts(plan)} parts, "
            f"{_parts(plan) // layout.cp} for each of {layout.cp} context parallel ranks"
        )
    for heads, what in ((shape.heads, "head"), (shape.key_value_heads, "key-value head")):
        if not is_ring(plan) and heads % ranks:
            raise LayoutError(
                f"{units.count(heads, what)} cannot be divided evenly over {ranks} ranks (cp x tp), as ulysses does; "
                "expected a multiple of them, or --context ring"
            )


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """Messages of keys and values (ring), or all_to_all of queries, keys, values and results (Ulysses)."""
    n, queries_nbytes = plan.layout.cp, plan.shape.layers * _queries(plan, activations_nbytes(plan))
    keys_nbytes, passes = _keys(plan, queries_nbytes), _passes(plan)
    if is_ring(plan):
        yield Traffic(KEYS_AND_VALUES, "send", "cp", n, passes * 2 * (n - 1) * keys_nbytes)
        yield Traffic(THEIR_GRADIENTS, "send", "cp", n, 2 * (n - 1) * keys_nbytes)
        return
    for what, nbytes in _to_heads(plan, queries_nbytes):
        yield Traffic(what, "all_to_all", "cp", n, passes * nbytes // n)
    yield Traffic(TO_POSITIONS, "all_to_all", "cp", n, passes * queries_nbytes // n)


def _passes(plan: TrainingPlan) -> int:
    """The passes through a block: its forward passes, and backward."""
    return plan.layout.forwards + 1


def _queries(plan: TrainingPlan, activations: int) -> int:
    """The bytes of the queries of as many positions as have activations of these bytes."""
    return activations * plan.shape.query_width // plan.shape.width


def _keys(plan: TrainingPlan, queries: int) -> int:
    """The bytes of the keys of as many positions as have queries of these bytes; values have as many."""
    return queries * plan.shape.key_value_heads // plan.shape.heads


def _to_heads(plan: TrainingPlan, queries: int) -> list[tuple[str, int]]:
    """The calls from positions to heads: what each carries, and its bytes."""
    keys = _keys(plan, queries)
    if keys == queries:
        return [(TO_HEADS, 3 * queries)]
    return [(QUERIES_TO_HEADS, queries), (KEYS_AND_VALUES_TO_HEADS, 2 * keys)]


def calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """Messages to the next rank of the ring, or all_to_alls, for each of the rank's layers and each micro-batch. A rank
    has its tensor parallel share of the heads."""
    layout = plan.layout
    each = layer_count(plan, position) * layout.micro_batches
    queries = _queries(plan, micro_batch_nbytes(plan)) // layout.tp
    passes = _passes(plan)
    if is_ring(plan):
        times = each * (layout.cp - 1)
        yield RankCalls(KEYS_AND_VALUES, "send", "cp", passes * times, 2 * _keys(plan, queries))
        yield RankCalls(THEIR_GRADIENTS, "send", "cp", times, 2 * _keys(plan, queries))
        return
    for what, nbytes in _to_heads(plan, queries):
        yield RankCalls(what, "all_to_all", "cp", passes * each, nbytes)
    yield RankCalls(TO_POSITIONS, "all_to_all", "cp", passes * each, queries)


STRATEGY = Strategy(
    "context parallel", "cp", used, check, by_name("context.attention", "apply"), traffic, calls, positions=positions
)
