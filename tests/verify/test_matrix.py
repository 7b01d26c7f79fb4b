"""The least that the registry must hold, written out; and that all of it is proved, programs and all.

`ringtree prove all --ranks 1-64` proves the whole registry at every n; here are a few n, for every day.
"""

from __future__ import annotations

from functools import partial

import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.verify import Case, prove_many

LEAST = {
    "ring": ("all_reduce", "reduce_scatter", "all_gather"),
    "chain": ("broadcast", "reduce", "scan", "exscan"),
    "double_tree": ("all_reduce", "broadcast", "reduce"),
    "one_shot": ("all_reduce",),
    "two_shot": ("all_reduce", "reduce_scatter", "all_gather"),
    "halving_doubling": ("all_reduce", "reduce_scatter", "all_gather"),
    "hierarchical": (
        *("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce"),
        *("gather", "scatter", "all_to_all"),
    ),
    "pairwise": ("all_to_all",),
    "dissemination": ("barrier",),
    "flat": ("broadcast", "reduce", "gather", "scatter"),
    "hillis_steele": ("scan", "exscan"),
    "inorder_tree": ("scan", "exscan"),
    "bine_tree": ("all_reduce", "broadcast", "reduce"),
    "binomial": ("broadcast", "reduce", "gather", "scatter"),
    "binary_tree": ("all_reduce", "broadcast", "reduce"),
    "recursive_doubling": ("all_reduce", "all_gather", "barrier"),
    "bruck": ("all_gather", "all_to_all"),
    "circulant": ("all_reduce", "reduce_scatter", "all_gather"),
    "circulant_broadcast": ("broadcast", "reduce"),
    "torus": ("all_reduce", "reduce_scatter", "all_gather"),
    "torus_3d": ("all_reduce", "reduce_scatter", "all_gather"),
    "swing": ("all_reduce", "reduce_scatter", "all_gather"),
    "pat": ("all_gather", "reduce_scatter"),
    "locality_tree": ("all_reduce", "broadcast", "reduce"),
    "split_tree": ("all_reduce",),
    "parameter_server": ("all_reduce",),
    "sharded_server": ("all_reduce",),
}


def cases(ranks: range) -> list[Case]:
    """Every algorithm for every collective at every n, rooted ones with roots 0, 1 and n-1."""
    return [
        (f"{name} {collective} n={n} root={root}", partial(build, name, collective, n, root))
        for n in ranks
        for name, collective in pairs()
        for root in (sorted({0, min(1, n - 1), n - 1}) if COLLECTIVES[collective].rooted else [None])  # type: ignore[list-item]
    ]


def test_the_least_matrix_is_served() -> None:
    least = {(name, collective) for name, served in LEAST.items() for collective in served}
    assert len(least) == 72
    assert least <= set(pairs())
    assert {collective for _, collective in least} == set(COLLECTIVES)


@pytest.mark.parametrize("ranks", [range(1, 7), range(8, 9)], ids=str)
def test_everything_is_proved(ranks: range) -> None:
    report = prove_many(cases(ranks), processes=1)
    assert not report.failures
    assert report.schedules == len(cases(ranks)) >= 69 * len(ranks)


@pytest.mark.parametrize(
    ("ranks", "most_transfers"),
    [(67, 300), pytest.param(127, 500, marks=pytest.mark.slow), pytest.param(1000, 999, marks=pytest.mark.slow)],
)
def test_schedules_with_few_transfers_are_proved_at_many_ranks(ranks: int, most_transfers: int) -> None:
    first = [case for case in cases(range(ranks, ranks + 1)) if not case[0].endswith(("root=1", f"root={ranks - 1}"))]
    report = prove_many(first, processes=1, most_transfers=most_transfers)
    assert not report.failures
    assert report.schedules >= 13 and report.left_out


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", [100, 127, 128, 255, 256, 1000])
def test_everything_up_to_200_000_transfers_is_proved_at_many_ranks(ranks: int) -> None:
    report = prove_many(cases(range(ranks, ranks + 1)), most_transfers=200_000)
    print(report)
    assert not report.failures
    assert report.schedules >= 80


@pytest.mark.slow
@pytest.mark.timeout(600)  # a minute on two free cores, more beside the rest of the long campaigns
def test_everything_is_proved_up_to_64_ranks() -> None:
    report = prove_many(cases(range(1, 65)))
    print(report)
    assert not report.failures
    assert report.schedules == len(cases(range(1, 65)))
