"""The time of a pipeline's passes is that of all of them played one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.training import ParallelLayout
from ringtree.training.strategies.layers.micro_batches import has_even_rounds
from ringtree.training.strategies.layers.pipeline_order import STAGES_A_RANK, Pass, bubble, order
from ringtree.training.strategies.layers.pipeline_time import passes_s

EXACT = 1e-9
DRAWN = 0.03
"""The error of stages' times drawn at random, in many micro-batches."""


def _played_s(layout: ParallelLayout, forward_s: list[float], backward_s: list[float]) -> float:
    """Every rank does its passes in order, each as soon as the pass before and the neighbouring stage's are over."""
    stages, done_s, free_s = len(forward_s), dict[Pass, float](), [0.0] * layout.pp
    left = [order(layout, rank) for rank in range(layout.pp)]
    while any(left):
        for rank, passes in enumerate(left):
            while passes and all(need in done_s for need in _needs(passes[0], stages)):
                one = passes.pop(0)
                begin_s = max([free_s[rank], *(done_s[need] for need in _needs(one, stages))])
                done_s[one] = free_s[rank] = begin_s + (backward_s if one.backward else forward_s)[one.stage]
    return max(free_s)


def _needs(one: Pass, stages: int) -> list[Pass]:
    if one.backward and one.stage == stages - 1:
        return [Pass(False, one.micro_batch, one.stage)]
    neighbour = one.stage + (1 if one.backward else -1)
    return [Pass(one.backward, one.micro_batch, neighbour)] if neighbour >= 0 else []


def _layouts(most_rounds: int) -> st.SearchStrategy[ParallelLayout]:
    def layout(schedule: str, pp: int, rounds: int, more: int) -> ParallelLayout:
        m = 1 if schedule == "naive" else pp * rounds + more % pp
        if schedule == "interleaved" and not has_even_rounds(m, pp):
            m = pp * rounds
        return ParallelLayout(pp=pp, schedule=schedule, micro_batches=m)

    return st.builds(
        layout, st.sampled_from(list(STAGES_A_RANK)), st.integers(1, 6), st.integers(1, most_rounds), st.integers(0, 5)
    )


def _drawn(data: st.DataObject, layout: ParallelLayout) -> list[float]:
    stages = layout.pp * STAGES_A_RANK[layout.schedule]
    return data.draw(st.lists(st.floats(0.1, 10), min_size=stages, max_size=stages))


@given(_layouts(2), st.data())
def test_few_micro_batches_take_the_time_of_all_passes(layout: ParallelLayout, data: st.DataObject) -> None:
    forward_s, backward_s = _drawn(data, layout), _drawn(data, layout)
    expected_s = pytest.approx(_played_s(layout, forward_s, backward_s), rel=EXACT)
    assert passes_s(layout, forward_s, backward_s) == expected_s


@given(_layouts(12), st.data())
def test_of_many_micro_batches_the_first_are_enough(layout: ParallelLayout, data: st.DataObject) -> None:
    """With backward passes that take twice as long as forward passes."""
    forward_s = _drawn(data, layout)
    backward_s = [2 * each_s for each_s in forward_s]
    expected_s = pytest.approx(_played_s(layout, forward_s, backward_s), rel=DRAWN)
    assert passes_s(layout, forward_s, backward_s) == expected_s


@given(st.sampled_from(["gpipe", "1f1b"]), st.integers(2, 8), st.integers(1, 12), st.floats(1, 5), st.data())
def test_where_the_last_stage_takes_longest_nothing_is_left_out(
    schedule: str, pp: int, rounds: int, last_s: float, data: st.DataObject
) -> None:
    """As the stage with the scores does: one micro-batch passes all stages, the others the last."""
    layout = ParallelLayout(pp=pp, schedule=schedule, micro_batches=pp * rounds)
    forward_s = [*data.draw(st.lists(st.floats(0.5, 1), min_size=pp - 1, max_size=pp - 1)), last_s]
    backward_s = [2 * each_s for each_s in forward_s]
    expected_s = pytest.approx(_played_s(layout, forward_s, backward_s), rel=EXACT)
    assert passes_s(layout, forward_s, backward_s) == expected_s
    assert expected_s == 3 * (sum(forward_s) + (pp * rounds - 1) * last_s)


@given(_layouts(12))
def test_stages_that_are_alike_wait_by_the_formula(layout: ParallelLayout) -> None:
    alike_s = [1.0 / STAGES_A_RANK[layout.schedule]] * layout.pp * STAGES_A_RANK[layout.schedule]
    expected_s = 3 * layout.micro_batches * (1 + bubble(layout))
    assert passes_s(layout, alike_s, [2 * each_s for each_s in alike_s]) == pytest.approx(expected_s, rel=EXACT)
