"""A ring is a ring: everyone sends to the next one only, and a sum ends where it belongs."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms.rings import ring


@pytest.mark.parametrize("n", [2, 3, 8, 17])
def test_everyone_sends_to_the_next_one_only(n: int) -> None:
    for schedule in (ring.all_reduce(n), ring.reduce_scatter(n), ring.all_gather(n)):
        rows = schedule.expand()
        assert np.all(rows.target == (rows.source + 1) % n)


def test_every_link_is_busy_in_every_round() -> None:
    rows = ring.all_reduce(5).expand()
    for part in rows.by_round():
        assert sorted(part.source.tolist()) == list(range(5))
        assert len(set(part.source_chunk.tolist())) == 5


def test_all_reduce_is_reduce_scatter_then_all_gather() -> None:
    assert ring.all_reduce(6) == ring.reduce_scatter(6).then(ring.all_gather(6), "all_reduce")
    assert [b.times for b in ring.all_reduce(6).blocks] == [5, 5]
