"""The estimated time of a whole step: what waits for a pipeline's stages, and what passes beside computing."""

from __future__ import annotations

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.flops import flops as flops_at
from ringtree.training.core.flops import model_flops, most_flops, stage_flops
from ringtree.training.predict.priced_places import CallTime
from ringtree.training.predict.step_times import PricedCalls, StepTimes
from ringtree.training.predict.whole_step import WholeStep, played_bubble
from ringtree.training.strategies.layers.pipeline_order import bubble
from ringtree.training.strategies.registry import calls
from tests.training.table import LARGE_VOCABULARY

CALL_S = 0.25
"""The time of each call."""


def _whole(layout: ParallelLayout, computing_s: float = 12.0) -> tuple[WholeStep, dict[str, float]]:
    """A step that computes for so long, and the seconds of its calls along each axis."""
    plan = TrainingPlan(layout, Shape(width=64, layers=8, heads=8), TrainingSettings(batch=16))
    time = CallTime(CALL_S, CALL_S, CALL_S, "ring", "simple")
    priced = tuple(PricedCalls(call, None, time) for call in calls(plan, 0))
    by_axis_s = dict[str, float]()
    for call in calls(plan, 0):
        by_axis_s[call.axis] = by_axis_s.get(call.axis, 0.0) + call.times * CALL_S
    layers_s = sum(by_axis_s.get(axis, 0.0) for axis in ("tp", "cp", "ep"))
    times = StepTimes(0, priced, between_layers_s=(layers_s,) * layout.pp)
    return WholeStep(plan, times, most_flops(plan) / computing_s), by_axis_s


def test_one_rank_computes_alone() -> None:
    step, along_s = _whole(ParallelLayout())
    assert not along_s and step.computing_s == step.serial_s == step.overlapped_s == pytest.approx(12)


def test_a_rank_that_computes_alone_is_used_in_full() -> None:
    """And ranks that wait are so in less: seven micro-batches pass the last of four stages, one passes all."""
    alone, _ = _whole(ParallelLayout())
    assert alone.model_flops_a_s == pytest.approx(alone.flops_a_s) and alone.tokens_a_s == pytest.approx(16 * 64 / 12)
    piped, along_s = _whole(ParallelLayout(pp=4, micro_batches=8), 1e6)
    flops = [flops_at(piped.plan, position) for position in range(4)]
    expected_s = (7 * max(flops) + sum(flops)) / (8 * piped.flops_a_s) + along_s["pp"]
    assert piped.overlapped_s == pytest.approx(expected_s)
    assert piped.model_flops_a_s == pytest.approx(sum(flops) / (4 * expected_s)) and max(flops) == flops[-1] > flops[0]


@pytest.mark.parametrize("micro_batches", [1, 4])
def test_gradients_pass_beside_the_last_backward_pass(micro_batches: int) -> None:
    """Two thirds of a micro-batch's computing: 8 s, or 2."""
    for computing_s in (12.0, 0.12):
        step, along_s = _whole(ParallelLayout(dp=2, micro_batches=micro_batches), computing_s)
        assert step.serial_s == pytest.approx(computing_s + along_s["data"])
        covered_s = min(along_s["data"], computing_s * 2 / 3 / micro_batches)
        assert step.overlapped_s == pytest.approx(step.serial_s - covered_s)


def test_parameters_that_are_dealt_out_again_wait_for_the_optimizer() -> None:
    """ZeRO 1 sums gradients beside the backward pass, and sends parameters when it is over."""
    (summed, first_s), (dealt, second_s) = (_whole(ParallelLayout(dp=2, zero=zero)) for zero in (0, 1))
    assert dealt.overlapped_s - summed.overlapped_s == pytest.approx(second_s["data"] - first_s["data"]) and (
        second_s["data"] > first_s["data"]
    )


@pytest.mark.parametrize("zero", [2, 3])
def test_all_that_zero_sends_passes_beside_computing(zero: int) -> None:
    step, along_s = _whole(ParallelLayout(dp=2, zero=zero), 1000.0)
    assert step.overlapped_s == pytest.approx(1000) and step.serial_s == pytest.approx(1000 + along_s["data"])


def _divided(zero: int, pp: int, micro_batches: int, computing_s: float) -> tuple[float, float, float]:
    """The seconds of a step that are not computing, and those of its reduce_scatters and its all_gathers."""
    step, _ = _whole(ParallelLayout(dp=2, zero=zero, pp=pp, micro_batches=micro_batches), computing_s)
    kinds = ("reduce_scatter", "all_gather", "send")
    sums_s, gathers_s, messages_s = (
        sum(p.calls.times * CALL_S for p in step.times.priced if p.calls.collective == kind) for kind in kinds
    )
    waiting_s = sum(flops_at(step.plan, position) for position in range(pp - 1)) / micro_batches / step.flops_a_s
    return step.overlapped_s - computing_s - waiting_s - messages_s, sums_s, gathers_s


@pytest.mark.parametrize("zero", [2, 3])
def test_stages_divide_gradients_when_all_passes_are_over(zero: int) -> None:
    """Their parameters alone are gathered beside computing."""
    left_s, sums_s, _ = _divided(zero, 2, 4, 1000.0)
    assert sums_s > 0 and left_s == pytest.approx(sums_s)


@pytest.mark.parametrize("zero", [2, 3])
def test_gradients_are_divided_beside_backward_passes_alone(zero: int) -> None:
    """Two thirds of the computing; ZeRO 2 gathers beside the first of four forward passes, ZeRO 3 beside all."""
    left_s, sums_s, gathers_s = _divided(zero, 1, 4, 0.12)
    assert left_s == pytest.approx(sums_s - 0.08 + gathers_s - (0.01 if zero == 2 else 0.04))


def test_layers_wait_for_the_calls_between_them() -> None:
    """Context parallel ranks have gradients to sum, too, which pass beside the backward pass."""
    for axis, layout in (
        ("tp", ParallelLayout(tp=2)),
        ("tp", ParallelLayout(tp=2, sp=True)),
        ("cp", ParallelLayout(cp=2)),
    ):
        step, along_s = _whole(layout)
        assert step.overlapped_s == pytest.approx(12 + along_s[axis])
        assert step.serial_s == pytest.approx(12 + sum(along_s.values()))


def test_blocks_that_are_computed_again_stretch_the_backward_pass() -> None:
    """Four passes of their products in place of three, of which the model's count once; gradients pass beside three."""
    once, _ = _whole(ParallelLayout(dp=2))
    again, along_s = _whole(ParallelLayout(dp=2, recompute=True))
    at_one_rate = WholeStep(again.plan, again.times, once.flops_a_s)
    assert 4 / 3 - 0.05 < at_one_rate.computing_s / once.computing_s < 4 / 3  # the scores' are three
    assert at_one_rate.model_flops_a_s < once.model_flops_a_s
    hurried = WholeStep(again.plan, again.times, again.flops_a_s * 1e6)
    assert hurried.serial_s - hurried.overlapped_s == pytest.approx(hurried.computing_s * 3 / 4, rel=0.01)
    assert along_s["data"] > hurried.computing_s


def test_a_pipeline_waits_for_its_stages_and_their_calls() -> None:
    step, along_s = _whole(ParallelLayout(pp=4, tp=2, micro_batches=6))
    others_s = sum(flops_at(step.plan, position) for position in range(3)) / step.flops_a_s + 3 * along_s["tp"]
    assert step.overlapped_s == pytest.approx(12 + along_s["tp"] + others_s / 6 + along_s["pp"])


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "1f1b"])
def test_stages_take_their_own_time(schedule: str) -> None:
    """Of sixteen stages of two or three layers, with the scores of a large vocabulary in the last; a naive layer split
    does one rank's work in turns."""
    micro_batches = 1 if schedule == "naive" else 16
    layout = ParallelLayout(pp=16, schedule=schedule, micro_batches=micro_batches)
    plan = TrainingPlan(layout, LARGE_VOCABULARY, TrainingSettings(batch=64), "bfloat16")
    flops = [flops_at(plan, position) for position in range(16)]
    step = WholeStep(plan, StepTimes(0, ()), 4e14)
    assert step.overlapped_s == pytest.approx((sum(flops) + (micro_batches - 1) * max(flops)) / micro_batches / 4e14)
    assert step.overlapped_s < step.computing_s * (1 + bubble(layout)) / 1.3
    assert played_bubble(plan) == pytest.approx(step.overlapped_s / step.computing_s - 1)
    if schedule == "naive":
        assert step.overlapped_s == pytest.approx(model_flops(plan) / 4e14)


@pytest.mark.parametrize(("schedule", "micro_batches"), [("naive", 1), ("gpipe", 8), ("1f1b", 8), ("interleaved", 8)])
def test_stages_that_compute_alike_wait_by_the_formula(schedule: str, micro_batches: int) -> None:
    """But for the scores, of few tokens that there are."""
    layout = ParallelLayout(pp=4, schedule=schedule, micro_batches=micro_batches)
    plan = TrainingPlan(layout, Shape(width=4096, layers=8, heads=8), TrainingSettings(batch=16))
    assert played_bubble(plan) == pytest.approx(bubble(layout), rel=0.01)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
def test_stages_have_the_operations_of_their_ranks(schedule: str, recompute: bool) -> None:
    layout = ParallelLayout(pp=4, schedule=schedule, micro_batches=8, recompute=recompute)
    plan = TrainingPlan(layout, Shape(width=64, layers=11, heads=8), TrainingSettings(batch=16))
    found = stage_flops(plan)
    for position in range(4):
        assert sum(map(sum, found[position::4])) == flops_at(plan, position)
    forward, backward = (sum(of[way] for of in found) for way in (0, 1))
    assert (backward > 2 * forward) == recompute
