"""A rank's calls of a step: over all ranks their bytes are those of the formulas, and DDP's buckets are as planned."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.strategies.registry import calls, traffic
from ringtree.training.strategies.strategy import RankCalls
from tests.torch_backend.conftest import Worlds
from tests.training.table import LAYOUTS, plan
from tests.training.trained import PATIENCE_S, hold_to_the_calls, train

BUCKETS = TrainingPlan(ParallelLayout(dp=2), Shape(width=512, layers=4, context=8), TrainingSettings(batch=2, steps=3))
"""A model of 50 MiB, of which DDP makes several buckets."""


def _vectors(of: TrainingPlan, call: RankCalls, position: int) -> int:
    """How many vectors a rank's call is in `Traffic`, all ranks at a position together."""
    apart = of.layout.ranks // of.layout.pp
    if call.collective in ("send", "all_to_all_v"):
        sends = call.between is None or call.between[0] == position
        return apart if sends else 0
    return apart // of.layout.size(call.axis)


@pytest.mark.parametrize("name", [name for name, (layout, _) in LAYOUTS.items() if layout.staleness is None])
def test_the_calls_of_all_ranks_are_the_traffic(name: str) -> None:
    of, found = plan(name), Counter[Any]()
    for position in range(of.layout.pp):
        for call in calls(of, position):
            key = call.what, call.collective, call.axis
            found[key] += call.times * call.nbytes * _vectors(of, call, position)
    assert found == {(t.what, t.collective, t.axis): t.nbytes for t in traffic(of) if t.wire_nbytes}


BY_HAND: dict[str, tuple[TrainingPlan, int, set[tuple[str, str, int, int]]]] = {
    "tp": (
        TrainingPlan(ParallelLayout(tp=4, dp=2, micro_batches=2)),
        0,
        # 4 layers x 4 and 2 ends, x 2 micro-batches; 16 / 2 / 2 rows x 64 positions x 96 x 4 bytes; the loss's three of
        # 4 bytes a position; gradients of 4 layers, 64 of 256 tokens and 64 positions, the norm and 64 scores
        {
            ("all_reduce", "tp", 36, 98304),
            ("all_reduce", "tp", 6, 1024),
            ("all_reduce", "data", 1, 4 * (4 * 28320 + 12288 + 6400)),
        },
    ),
    "pp in the middle": (
        TrainingPlan(ParallelLayout(pp=4, micro_batches=8), Shape(layers=8)),
        1,
        # each way 8 micro-batches over the cut before and the one behind; 2 rows x 64 x 96 x 4 bytes
        {("send", "pp", 8, 49152)},
    ),
    "ring": (
        TrainingPlan(ParallelLayout(cp=4)),
        0,
        # 4 layers x 3 times to the next, forward and back; then gradients; keys and values of 16 x 16 positions.
        # Of 501,952 gradients the first bucket has those of scores, norm, two layers and one layer's last matrix.
        {
            ("send", "cp", 24, 196608),
            ("send", "cp", 12, 196608),
            ("all_reduce", "data", 1, 4 * (25024 + 2 * 111552 + 96 + 36864)),
            ("all_reduce", "data", 1, 4 * (501952 - 285088)),
        },
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_calls_by_hand(name: str) -> None:
    of, position, expected = BY_HAND[name]
    assert {(c.collective, c.axis, c.times, c.nbytes) for c in calls(of, position)} == expected


def test_no_calls_without_others() -> None:
    assert calls(TrainingPlan(), 0) == ()


def test_buckets_of_gradients(worlds: Worlds) -> None:
    assert len({*calls(BUCKETS, 0)}) > 2
    hold_to_the_calls(BUCKETS, worlds(2).run(train, BUCKETS, within_s=PATIENCE_S))


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "interleaved"])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_schedule_without_a_pipeline_changes_no_call(schedule: str, layers: int) -> None:
    shape = Shape(layers=layers)
    plain, other = (TrainingPlan(ParallelLayout(dp=2, schedule=name), shape) for name in ("1f1b", schedule))
    assert calls(other, 0) == calls(plain, 0) != ()
