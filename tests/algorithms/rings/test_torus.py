"""Ranks talk to neighbours on the torus only, one range a copy; four or six ports are busy at once."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from ringtree.algorithms.rings import torus, torus_3d


def test_shapes_are_as_even_as_can_be() -> None:
    assert [torus.shape(n, 2) for n in (1, 7, 12, 16, 60)] == [(1, 1), (1, 7), (3, 4), (4, 4), (6, 10)]
    assert [torus.shape(n, 3) for n in (1, 7, 8, 12, 60)] == [(1, 1, 1), (1, 1, 7), (2, 2, 2), (2, 2, 3), (3, 4, 5)]


@pytest.mark.parametrize(("n", "dimensions"), [(9, 2), (12, 2), (12, 3), (27, 3), (7, 2)])
def test_only_neighbours_talk(n: int, dimensions: int) -> None:
    shape = torus.shape(n, dimensions)
    apart = [prod(shape[:k]) for k in range(dimensions)]
    for schedule in (torus.all_reduce(n, dimensions), torus.all_gather(n, dimensions)):
        rows = schedule.expand()
        steps = [
            (rows.target // by % extent - rows.source // by % extent) % extent
            for extent, by in zip(shape, apart, strict=True)
        ]
        moved = np.stack([np.minimum(s, e - s) for s, e in zip(steps, shape, strict=True)])
        assert np.all(moved.sum(axis=0) == 1)


@pytest.mark.parametrize(("schedule", "ports"), [(torus.all_reduce(9), 4), (torus_3d.all_reduce(27), 6)])
def test_all_ports_are_busy_in_every_round(schedule, ports: int) -> None:  # type: ignore[no-untyped-def]
    for part in schedule.expand().by_round():
        for rank in range(schedule.ranks):
            assert len(set(part.target[part.source == rank].tolist())) == ports
            assert len(set(part.source[part.target == rank].tolist())) == ports


def test_a_prime_is_a_ring_in_both_directions() -> None:
    rows = torus.all_reduce(7).expand()
    assert set(((rows.target - rows.source) % 7).tolist()) == {1, 6}


def test_one_range_a_copy_and_a_round() -> None:
    for part in torus.all_reduce(12).expand().by_round():
        assert max(part.source.tolist().count(r) for r in range(12)) == 4
    for part in torus.all_gather(12).expand().by_round():
        assert part.source.tolist() == list(range(12))
