"""What must be read from peers, worked out by hand; and nothing is predicted to do with less."""

from __future__ import annotations

import pytest

from ringtree.algorithms import pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import BUILT_IN, Room, predict
from ringtree.plan.bound import bound_s, least_fetched
from ringtree.plan.steps import wanted


@pytest.mark.parametrize(
    ("collective", "total", "busiest"),
    [
        ("all_reduce", 6, 1.5),
        ("reduce_scatter", 3, 0.75),
        ("all_gather", 3, 0.75),
        ("broadcast", 3, 1),
        ("reduce", 3, 1),
        ("gather", 0.75, 0.75),
        ("scatter", 0.75, 0.25),
        ("all_to_all", 3, 0.75),
        ("scan", 3, 1),
        ("exscan", 3, 1),
        ("barrier", 0, 0),
    ],
)
def test_what_four_ranks_must_read(collective: str, total: float, busiest: float) -> None:
    assert least_fetched(collective, 4)[:2] == (total, busiest)


@pytest.mark.parametrize(("algorithm", "collective"), pairs())
@pytest.mark.parametrize("ranks", [1, 2, 6])
@pytest.mark.parametrize("cores", [2, 8])
def test_nothing_is_predicted_to_beat_it(algorithm: str, collective: str, ranks: int, cores: int) -> None:
    room = Room(cores, 8, 1 << 17)
    root = 0 if COLLECTIVES[collective].rooted else None
    for nbytes in (8, 1 << 16, 1 << 22, 1 << 26):
        steps = wanted(algorithm, collective, ranks, root, nbytes, room.slot_bytes)
        time_s = predict(algorithm, collective, ranks, root, nbytes, steps, BUILT_IN, room).time_s
        assert bound_s(collective, ranks, nbytes, BUILT_IN, room) <= time_s * (1 + 1e-9)
