"""A rank holds what each strategy states."""

from __future__ import annotations

from typing import Any

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.sizes import padded_nbytes, parameters_nbytes, shapes
from tests.torch_backend.conftest import Worlds

SHAPE = Shape(width=32, layers=4, heads=4, context=8)


def _plan(n: int, zero: int) -> TrainingPlan:
    return TrainingPlan(ParallelLayout(dp=n, zero=zero), SHAPE, TrainingSettings(batch=12))


def _measure(plan: TrainingPlan) -> Any:
    from ringtree.training.measure.memory import measure

    return measure(plan)


def _state_nbytes(plan: TrainingPlan, ranks: int) -> int:
    """AdamW's, of all ranks together that have it once: two moments, and the number of steps by `ranks` of them."""
    return 2 * parameters_nbytes(plan) + plan.element_nbytes * len(shapes(plan.shape)) * ranks


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("zero", [0, 1])
def test_parameters_and_gradients_are_whole(worlds: Worlds, zero: int, n: int) -> None:
    plan = _plan(n, zero)
    got = worlds(n).run(_measure, plan)
    assert {(its.parameters, its.gradients) for its in got} == {(parameters_nbytes(plan), parameters_nbytes(plan))}
    if zero == 0:
        assert {its.optimizer_state for its in got} == {_state_nbytes(plan, 1)}
    else:
        largest = max(rows * width for rows, width in (s for s in shapes(plan.shape).values() if len(s) == 2))
        assert sum(its.optimizer_state for its in got) == _state_nbytes(plan, 1)
        assert max(its.optimizer_state for its in got) <= _state_nbytes(plan, 1) / n + 2 * plan.element_nbytes * largest


@pytest.mark.parametrize(("zero", "n"), [(2, 3), (2, 4), (3, 2), (3, 3)])
def test_parameters_and_gradients_are_divided(worlds: Worlds, zero: int, n: int) -> None:
    """Of 32 rows, three ranks have no even part."""
    plan = _plan(n, zero)
    got = worlds(n).run(_measure, plan)
    assert {(its.parameters, its.gradients) for its in got} == {(padded_nbytes(plan, n) // n,) * 2}
    assert sum(its.optimizer_state for its in got) == _state_nbytes(plan, n)


def test_at_its_most_each_takes_less_than_the_one_before(worlds: Worlds) -> None:
    peaks = [max(its.peak for its in worlds(2).run(_measure, _plan(2, zero))) for zero in range(4)]
    assert peaks == sorted(peaks, reverse=True) and len(set(peaks)) == 4
    # ZeRO 3 has half of everything, twice (what it keeps, and what it sends), and a block: not the model.
    assert peaks[3] < peaks[0] - parameters_nbytes(_plan(2, 3))


def test_activations_are_those_of_the_rows_that_a_rank_has(worlds: Worlds) -> None:
    alone = _measure(_plan(1, 0))
    for its in worlds(2).run(_measure, _plan(2, 0)):
        assert its.activations == pytest.approx(alone.activations / 2, rel=0.01)
    assert alone.parameters == parameters_nbytes(_plan(1, 0))
    assert alone.peak > alone.activations + alone.parameters + alone.optimizer_state


def test_micro_batches_leave_less_for_backward() -> None:
    parts = TrainingPlan(ParallelLayout(micro_batches=4), SHAPE, TrainingSettings(batch=12))
    assert _measure(parts).activations < 0.3 * _measure(_plan(1, 0)).activations
