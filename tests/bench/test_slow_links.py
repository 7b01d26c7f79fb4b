"""Slow hosts and pairs are named by comparison with the others, whichever of them is slow."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ringtree.bench.slow_links import Slow, slow_links

GOOD_BPS, GOOD_S = 1e9, 30e-6
Cell = tuple[object, object, float]
"""(row, column, value): a number, or slice(None) for all."""
ALL = slice(None)


def matrix(hosts: int, usual: float, cells: list[Cell]) -> NDArray[np.float64]:
    """The usual figure with a little noise, but for those cells."""
    made = usual * np.random.default_rng(hosts).uniform(0.8, 1.25, (hosts, hosts))
    for row, column, value in cells:
        made[row, column] = value
    np.fill_diagonal(made, np.nan)
    return made


@pytest.mark.parametrize(
    ("hosts", "bandwidths", "latencies", "expected"),
    [
        (2, [], [], []),
        (3, [], [], []),
        (8, [], [], []),
        (2, [(1, 0, 1e8)], [], [(Slow.BANDWIDTH, 1, 0)]),  # either may be at fault, so the link is named
        (3, [(2, ALL, 1e8), (ALL, 2, 1e8)], [], [(Slow.SENDS, 2, None), (Slow.RECEIVES, 2, None)]),  # most are slow
        (3, [(2, ALL, 1e8)], [], [(Slow.SENDS, 2, None)]),
        (3, [(0, 1, 1e8)], [], [(Slow.BANDWIDTH, 0, 1)]),
        (3, [(0, 1, 1e8), (1, 0, 1e8)], [], [(Slow.BANDWIDTH, 0, 1), (Slow.BANDWIDTH, 1, 0)]),
        (8, [(ALL, 5, 2e8)], [], [(Slow.RECEIVES, 5, None)]),
        (8, [(5, ALL, 2e8), (1, 3, 1e7)], [], [(Slow.SENDS, 5, None), (Slow.BANDWIDTH, 1, 3)]),
        (8, [(0, 1, 5e10), (1, 0, 5e10)], [], []),  # two containers of one machine make nobody else slow
        (3, [], [(2, ALL, 1e-3), (ALL, 2, 1e-3)], [(Slow.LATENCY, 2, None)]),
        (4, [], [(0, 3, 1e-3), (3, 0, 1e-3)], [(Slow.LATENCY, 0, 3)]),
        (4, [], [(0, 3, 1.2e-4), (3, 0, 1.2e-4)], []),  # more than three times, but by little
        (2, [], [(0, 1, 1.0), (1, 0, 1.0)], []),  # nothing to compare with
    ],
)  # fmt: skip
def test_the_slow_ones_are_named(
    hosts: int, bandwidths: list[Cell], latencies: list[Cell], expected: list[tuple[Slow, int, int | None]]
) -> None:
    found = slow_links(matrix(hosts, GOOD_S, latencies), matrix(hosts, GOOD_BPS, bandwidths))
    assert [(one.slow, one.host, one.other) for one in found.named] == expected and not found.two_speeds
    assert all(one.usual == (found.usual_s if one.slow is Slow.LATENCY else found.usual_Bps) for one in found.named)


def test_racks_are_two_speeds_and_no_list_of_links() -> None:
    bandwidth = matrix(8, GOOD_BPS, [(slice(0, 4), slice(4, 8), 1e8), (slice(4, 8), slice(0, 4), 1e8)])
    found = slow_links(matrix(8, GOOD_S, []), bandwidth)
    assert found.named == () and found.two_speeds == pytest.approx(32 / 56)
    assert found.pairs() == set()


def test_pairs_of_the_named() -> None:
    found = slow_links(matrix(4, GOOD_S, []), matrix(4, GOOD_BPS, [(2, ALL, 1e8), (0, 1, 1e7)]))
    assert found.pairs() == {(0, 2), (1, 2), (2, 3), (0, 1)}


def test_a_burst_that_passed_makes_no_other_host_slow() -> None:
    """Figures of a busy machine whose links let bursts pass; the third host alone has a slow link."""
    found = slow_links(
        matrix(3, GOOD_S, []),
        np.array([[np.nan, 128e6, 195e6], [116e6, np.nan, 288e6], [24e6, 25e6, np.nan]]),
    )
    assert [(one.slow, one.host, one.other) for one in found.named] == [(Slow.SENDS, 2, None)]
