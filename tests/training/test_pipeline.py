"""The bubble: waiting of a pipeline's ranks, measured beside the formula; and their memory meanwhile."""

from __future__ import annotations

import pytest

from ringtree.draw.text.pipeline import bubble
from ringtree.training import ParallelLayout
from ringtree.training.strategies.layers.pipeline_order import bubble as formula
from ringtree.training.strategies.layers.pipeline_order import first_passes, ideal
from tests.torch_backend.conftest import Worlds
from tests.training.trained import PATIENCE_S

FORWARD_S, LONG_FORWARD_S = 0.01, 0.05
"""A backward pass is two."""
TOLERANCE, GENEROUS = 0.1, 0.25
"""Of the bubble, as a share of what is computed: sleeps end late, and messages take time; the more, the busier the
machine."""
MOST_STEPS = 10
"""Other load on the machine makes a bubble larger: the smallest over these steps counts."""

SCHEDULES = ("gpipe", "1f1b", "interleaved")
LAYOUTS = [
    ParallelLayout(pp=p, schedule=schedule, micro_batches=m)
    for schedule in SCHEDULES
    for p, m in ((2, 4), (4, 4), (4, 8), (4, 16), (8, 8))
]


def _name(layout: ParallelLayout) -> str:
    return f"{layout.schedule} pp{layout.pp} m{layout.micro_batches}"


def _sleep(layout: ParallelLayout, forward_s: float = FORWARD_S, tolerance: float = TOLERANCE) -> tuple[float, int]:
    """On a rank: the smallest bubble of some steps, and of how many micro-batches it held activations at most."""
    from tests.training.sleeping import Pipeline

    pipeline, smallest = Pipeline(layout, forward_s, 2 * forward_s), float("inf")
    pipeline.step()
    for _ in range(MOST_STEPS):
        smallest = min(smallest, bubble(pipeline.step()))
        if smallest < formula(layout) + tolerance:
            break
    return smallest, pipeline.held


@pytest.mark.parametrize("layout", [*LAYOUTS, ParallelLayout(pp=4, schedule="naive")], ids=_name)
def test_the_schedules_as_they_are_meant_come_to_the_formula(layout: ParallelLayout) -> None:
    assert bubble(ideal(layout)) == pytest.approx(formula(layout))


UNEVEN = [ParallelLayout(pp=p, schedule="interleaved", micro_batches=m) for p, m in
    ((2, 1), (2, 3), (4, 1), (4, 2), (4, 3), (4, 5), (4, 6), (4, 7), (8, 3), (8, 12), (8, 15))]  # fmt: skip


@pytest.mark.parametrize("layout", UNEVEN, ids=_name)
def test_interleaved_stages_in_any_number_of_micro_batches(layout: ParallelLayout) -> None:
    """Fewer than ranks, whose bubble is larger; and others than multiples, in torch's order."""
    from torch.distributed.pipelining.schedules import _get_warmup_ops

    p, m = layout.pp, layout.micro_batches
    assert bubble(ideal(layout)) == pytest.approx(formula(layout))
    for rank in range(p):
        torchs = _get_warmup_ops(rank, 2, m // max(1, m // p), p, m, multiply_factor=2)
        assert first_passes(layout, rank) == min(2 * m, torchs + 1)


def test_ranks_that_would_wait_for_each_other_are_an_error() -> None:
    """17 micro-batches are no three rounds of the same length, which torch and the pipeline refuse."""
    with pytest.raises(ValueError, match="ranks wait for each other: forward 16 never begins in interleaved of 5"):
        ideal(ParallelLayout(pp=5, schedule="interleaved", micro_batches=17))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_measured_bubble_is_about_that_of_the_formula(worlds: Worlds, schedule: str) -> None:
    """On a busy machine too, beside whose delays the passes are long."""
    layout = ParallelLayout(pp=4, schedule=schedule, micro_batches=4)
    results = worlds(4).run(_sleep, layout, LONG_FORWARD_S, GENEROUS, within_s=PATIENCE_S)
    assert formula(layout) - TOLERANCE < results[0][0] < formula(layout) + GENEROUS


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=_name)
def test_the_measured_bubble_is_that_of_the_formula(worlds: Worlds, layout: ParallelLayout) -> None:
    results = worlds(layout.pp).run(_sleep, layout, within_s=PATIENCE_S)
    assert results[0][0] == pytest.approx(formula(layout), abs=TOLERANCE)


def _held(worlds: Worlds, schedule: str) -> list[int]:
    return [held for _, held in worlds(4).run(_sleep, ParallelLayout(pp=4, schedule=schedule, micro_batches=8))]


def test_1f1b_holds_fewer_activations_than_gpipe(worlds: Worlds) -> None:
    assert _held(worlds, "gpipe") == [8, 8, 8, 8]
    assert _held(worlds, "1f1b") == [4, 3, 2, 1]
