"""Expert parallelism: of each layer's experts a rank has its share, and tokens go to the ranks of theirs and back.

- In place of a block's dense layers, ranks of "ep" exchange the number of tokens for each expert (one all_to_all),
  send the tokens (an all_to_all of uneven parts: dispatch), and receive the experts' results (combine).
- In backward, gradients pass the same two exchanges; of blocks that are computed again, once counts and tokens have
  passed all three a second time. An expert's gradient then contains the contributions of all of "ep", and is averaged
  over "expert_data" (dp x cp) only; other gradients are averaged over all of "data".

Bytes that a step sends, over n ranks of "ep", in each layer: 8 experts (n-1) for the counts, and for each token that
goes to an expert of another rank 4 x 4 width: two directions, forward and backward; where blocks are computed again, 16
experts (n-1) and 6 x 4 width. How many do depends on the text; a
rank's T tokens are sent at most min(T min(top_k, other experts), other experts x capacity) times.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringtree.training.core.layout import LayoutError
from ringtree.training.core.placement import layer_count
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import capacity
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic, by_name

COUNT_NBYTES = 8
COUNTS, TOKENS = "tokens for each expert", "tokens to experts and back"


def used(plan: TrainingPlan) -> bool:
    """Whether experts are divided over two ranks or more."""
    return plan.layout.ep > 1


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless experts divide evenly over the ranks and no other strategy divides a block of
    experts."""
    layout, shape, ranks = plan.layout, plan.shape, plan.layout.ep
    if shape.experts and not 1 <= shape.top_k <= shape.experts:
        raise LayoutError(f"a token cannot go to {shape.top_k} of {shape.experts} experts")
    if ranks > 1 and (not shape.experts or shape.experts % ranks):
        raise LayoutError(f"{shape.experts} experts cannot be divided evenly over {ranks} expert parallel ranks")
    if shape.experts and layout.tp > 1:
        raise LayoutError("tensor parallel ranks (tp) divide dense layers, and blocks of experts have none")
    if shape.experts and layout.cp > 1:
        raise LayoutError("an expert's capacity is of whole sequences, which context parallel ranks (cp) do not have")
    if ranks > 1 and layout.zero == 1:
        raise LayoutError(
            "ZeRO 1 gives the state of a whole parameter to one of all data parallel ranks, which do not have the same "
            "experts (ep): use --zero 2 or 3"
        )


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """Token counts for every expert, and an upper bound of the tokens sent to experts and back."""
    layout, shape, n = plan.layout, plan.shape, plan.layout.ep
    times = layout.dp * shape.layers * layout.micro_batches
    counts_nbytes = layout.forwards * (n - 1) * COUNT_NBYTES * shape.experts
    yield Traffic(COUNTS, "all_to_all_v", "ep", n, times * counts_nbytes)
    yield Traffic(TOKENS, "all_to_all_v", "ep", n, times * n * exchanges(plan) * _most_nbytes(plan), at_most=True)


def exchanges(plan: TrainingPlan) -> int:
    """The number of times that a layer sends tokens, or their gradients: to experts and back, in each pass."""
    return 2 * (plan.layout.forwards + 1)


def _most_nbytes(plan: TrainingPlan) -> int:
    """Bytes of the tokens of a micro-batch that a rank sends to others at most."""
    shape, tokens = plan.shape, plan.rows * plan.positions
    others = shape.experts - shape.experts // plan.layout.ep
    most = min(tokens * min(shape.top_k, others), others * capacity(shape, tokens))
    return most * plan.element_nbytes * shape.width


def calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """The exchanges of counts and of tokens for each of the rank's layers and each micro-batch."""
    n, each = plan.layout.ep, layer_count(plan, position) * plan.layout.micro_batches
    yield RankCalls(
        COUNTS, "all_to_all_v", "ep", plan.layout.forwards * each, (n - 1) * COUNT_NBYTES * plan.shape.experts // n
    )
    yield RankCalls(TOKENS, "all_to_all_v", "ep", exchanges(plan) * each, _most_nbytes(plan))


_apply, _counted = by_name("experts.token_exchange", "apply"), by_name("experts.token_exchange", "counted")
STRATEGY = Strategy("expert parallel", "ep", used, check, _apply, traffic, calls, counted=_counted)
