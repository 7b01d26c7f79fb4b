"""The predicted memory of a rank between two steps is that of a training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.memory import most_gathered_nbytes, most_held
from ringtree.training.core.saved import most_saved_nbytes
from ringtree.training.core.sizes import parameters
from tests.torch_backend.conftest import Worlds
from tests.training.table import plan

NAMES = ["dp2", "tp2", "pp2 gpipe", "pp2 interleaved", "zero2 dp2", "zero3 dp2", "ep2"]
NAMES += ["zero3 dp2 sp2 own shape", "zero3 dp2 tied"]
NAMES += ["zero1 dp2 tp2", "zero1 dp2 sp2 own shape"]
NAMES += ["zero3 dp4 of few experts", "zero2 dp2 ep2 of few experts", "zero3 dp3 of experts that leave a rest"]
STEPS_NBYTES = 4
"""AdamW's number of steps, for each parameter that it changes."""


def _held(its: TrainingPlan) -> tuple[tuple[int, int, int], int]:
    from ringtree.training import Trainer
    from ringtree.training.core.step import holder
    from ringtree.training.measure.memory import held

    trainer = Trainer(its)
    trainer.step()
    found = held(trainer)
    counted = len(holder(trainer.optimizer).state)
    trainer.close()
    return (found.parameters, found.gradients, found.optimizer_state), counted


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_the_fullest_rank_of_a_training_holds(worlds: Worlds, name: str, optimizer: str) -> None:
    its = replace(plan(name), settings=replace(plan(name).settings, optimizer=optimizer))
    (most, counted) = max(worlds(its.layout.ranks).run(_held, its), key=lambda one: sum(one[0]))
    found = most_held(its)
    assert (found.parameters, found.gradients) == most[:2]
    assert found.optimizer_state == most[2] - (STEPS_NBYTES * counted if optimizer == "adamw" else 0)


@pytest.mark.parametrize("n", [2, 3])
def test_whole_tensors_are_dealt_out_by_zero_1(worlds: Worlds, n: int) -> None:
    shape = Shape(width=36, layers=3, heads=4, context=10)
    its = TrainingPlan(ParallelLayout(dp=n, zero=1), shape, TrainingSettings(batch=6))
    found, most = most_held(its), max(state for (_, _, state), _ in worlds(n).run(_held, its))
    assert found.optimizer_state <= most < found.optimizer_state + STEPS_NBYTES * 40


def test_two_bytes_have_a_copy_in_four() -> None:
    """16 bytes a parameter with AdamW, as in mixed precision; 2 and 2 and 4 with SGD."""
    its = TrainingPlan(dtype="bfloat16")
    assert most_held(its).in_all == 16 * parameters(its)
    assert most_held(replace(its, settings=TrainingSettings(optimizer="sgd"))).in_all == 8 * parameters(its)


def _peak(its: TrainingPlan) -> int:
    from ringtree.training.measure.memory import measure

    return measure(its).peak


@pytest.mark.parametrize(
    ("zero", "pp", "experts"),
    [(2, 1, 0), (3, 1, 0), pytest.param(2, 2, 0, marks=pytest.mark.slow), (3, 2, 0), (3, 1, 3)],
)
def test_what_zero_gathers_makes_up_the_peak(worlds: Worlds, zero: int, pp: int, experts: int) -> None:
    """Beside what is held between steps and saved for the backward pass, it is all that torch allocates, within 8 %."""
    layout = ParallelLayout(dp=2, pp=pp, zero=zero, micro_batches=2 * pp)
    shape = Shape(width=64, layers=8, heads=4, context=8, experts=experts)
    its = TrainingPlan(layout, shape, TrainingSettings(batch=8))
    needed_nbytes = most_held(its).in_all + most_gathered_nbytes(its) + most_saved_nbytes(its)
    assert max(worlds(layout.ranks).run(_peak, its)) == pytest.approx(needed_nbytes, rel=0.08)


@pytest.mark.parametrize("recompute", [False, True])
def test_what_is_saved_makes_up_the_peak(recompute: bool) -> None:
    """Of one rank, that of a block that is computed again, too: a third of the peak."""
    shape = Shape(width=64, layers=8, heads=4, context=64)
    its = TrainingPlan(ParallelLayout(recompute=recompute), shape, TrainingSettings(batch=16))
    assert _peak(its) == pytest.approx(most_held(its).in_all + most_saved_nbytes(its), rel=0.08)


def test_without_divided_parameters_nothing_is_gathered() -> None:
    assert all(most_gathered_nbytes(TrainingPlan(ParallelLayout(dp=2, zero=zero))) == 0 for zero in (0, 1))


def test_asynchronous_training_is_refused() -> None:
    with pytest.raises(ValueError, match="asynchronous training is not predicted"):
        most_held(TrainingPlan(ParallelLayout(dp=2, staleness=1)))
