"""The memory of the fullest rank: sums of what one rank has, not of the most that different ones have."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.predict.plan_memory import PlanMemory
from tests.torch_backend.conftest import Worlds
from tests.training.table import LARGE_VOCABULARY


def _memory(zero: int = 0) -> PlanMemory:
    layout = ParallelLayout(pp=16, dp=8, zero=zero, micro_batches=32)
    return PlanMemory(TrainingPlan(layout, LARGE_VOCABULARY, TrainingSettings(batch=256), "bfloat16"))


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_the_fullest_rank_has_what_one_rank_has(zero: int) -> None:
    """The last stage holds the scores; the second, of three layers, keeps the activations of fifteen micro-batches."""
    memory = _memory(zero)
    fullest, last = memory.fullest(saved=True), memory.by_position[-1]
    assert fullest == memory.by_position[1]
    (held, gathered, saved), (most_held, _, least_saved) = (astuple(one) for one in (fullest, last))
    assert held < most_held and saved > least_saved
    needed = [its.needed_nbytes(saved=True) for its in memory.by_position]
    assert needed[1] == max(needed) == held + gathered + saved


def test_without_activations_the_fullest_rank_holds_most() -> None:
    """And beside it stands the most that any rank saves."""
    memory = _memory()
    found = memory.fullest(saved=False)
    assert found.held_nbytes == memory.by_position[-1].held_nbytes
    assert found.saved_nbytes == memory.by_position[1].saved_nbytes


def test_asynchronous_training_is_not_predicted() -> None:
    memory = PlanMemory(TrainingPlan(ParallelLayout(dp=2, staleness=1)))
    assert not memory.is_known and memory.fullest(saved=True).needed_nbytes(saved=True) == 0


def _peak(its: TrainingPlan) -> int:
    from ringtree.training.measure.memory import measure

    return measure(its).peak


def test_each_position_needs_what_its_rank_allocates(worlds: Worlds) -> None:
    """The last stage's, too, which needs less."""
    layout = ParallelLayout(pp=2, micro_batches=4)
    its = TrainingPlan(layout, Shape(width=64, layers=24, heads=4, context=32), TrainingSettings(batch=16))
    needed = [of.needed_nbytes(saved=True) for of in PlanMemory(its).by_position]
    assert needed[1] < 0.9 * needed[0] and worlds(2).run(_peak, its) == pytest.approx(needed, rel=0.08)
