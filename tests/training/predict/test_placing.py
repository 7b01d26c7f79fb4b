"""The place of a layout's groups on machines: which GPUs of each, and which other groups leave these at once."""

from __future__ import annotations

import pytest

from ringtree.training import ParallelLayout
from ringtree.training.predict.placing import Placed, groups_of, placed

EACH = tuple((gpu,) for gpu in range(8))
PLACES: list[tuple[ParallelLayout, str, tuple[int, int] | None, set[Placed]]] = [
    (ParallelLayout(dp=2, tp=8), "tp", None, {Placed(1, tuple(range(8)))}),
    (ParallelLayout(dp=2, tp=8), "data", None, {Placed(2, gpus, EACH) for gpus in EACH}),
    (ParallelLayout(dp=4, tp=4), "tp", None, {Placed(1, (0, 1, 2, 3)), Placed(1, (4, 5, 6, 7))}),
    (
        ParallelLayout(dp=4, tp=4),
        "data",
        None,
        {Placed(2, (k, k + 4), ((0, 4), (1, 5), (2, 6), (3, 7))) for k in range(4)},
    ),
    (ParallelLayout(dp=16), "data", None, {Placed(2, tuple(range(8)), (tuple(range(8)),))}),
    (ParallelLayout(pp=4, tp=4), "pp", (0, 1), {Placed(1, (k, k + 4)) for k in range(4)}),
    (ParallelLayout(pp=2, tp=8), "pp", (1, 0), {Placed(2, gpus, EACH) for gpus in EACH}),
    (ParallelLayout(dp=2), "data", None, {Placed(1, (0, 1))}),
    (ParallelLayout(pp=4, dp=4), "pp", (1, 2), {Placed(2, (k,), EACH[4:], True) for k in range(4, 8)}),
    (ParallelLayout(pp=16), "pp", (7, 8), {Placed(2, (7,), ((7,),), True)}),
]


def any_alike(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return True


@pytest.mark.parametrize(("layout", "axis", "between", "expected"), PLACES)
def test_places(layout: ParallelLayout, axis: str, between: tuple[int, int] | None, expected: set[Placed]) -> None:
    groups = groups_of(layout, axis, between)
    assert placed(groups, range(len(groups)), 8, any_alike) == (expected, set())


@pytest.mark.parametrize(
    ("layout", "axis", "between", "why"),
    [
        (ParallelLayout(dp=8, tp=3), "tp", None, "a group's ranks are 1 and 2 to a machine"),
        (ParallelLayout(pp=16), "pp", (7, 8), "a group's ranks are on other GPUs in one machine than in the next"),
        (ParallelLayout(dp=2, tp=12), "dp", None, "a group's ranks are on other GPUs"),
    ],
)
def test_a_group_without_a_place(layout: ParallelLayout, axis: str, between: tuple[int, int] | None, why: str) -> None:
    groups = groups_of(layout, axis, between)
    _, (reason,) = placed(groups, range(len(groups)), 8, lambda one, other: one == other)
    assert reason.startswith(why) and "NCCL's model" in reason


def test_places_in_words() -> None:
    assert Placed(1, (0, 1)).words == "2 GPUs of a machine"
    assert Placed(16, (3,), EACH).words == "1 GPU of each of 16 machines"
    assert Placed(2, (3,), EACH, True).words == "1 GPU of each of 2 machines, not of the same numbers but alike"
