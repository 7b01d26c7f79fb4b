"""A chain starts at the root or ends there; in pieces, its hops overlap."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.algorithms.rings import chain
from ringtree.transform import pipeline
from ringtree.verify import prove


@pytest.mark.parametrize("n", [2, 3, 8, 17])
def test_everyone_sends_to_the_next_one_only(n: int) -> None:
    for schedule in (chain.broadcast(n, n // 2), chain.reduce(n, 1)):
        rows = schedule.expand()
        assert len(rows) == n - 1
        assert np.all(rows.target == (rows.source + 1) % n)


def test_a_chain_starts_at_the_root_or_ends_there() -> None:
    assert chain.broadcast(4, 3).expand().source.tolist() == [3, 0, 1]
    assert chain.reduce(4, 3).expand().target.tolist() == [1, 2, 3]


def test_pieces_are_its_pipelining() -> None:
    assert build("chain", "broadcast", 5, 2, pieces=7) == pipeline(chain.broadcast(5, 2), 7)
    prove(build("chain", "reduce", 5, 2, pieces=7))


def test_no_pieces_are_refused() -> None:
    with pytest.raises(ValueError, match="chain: cut into 0 pieces; expected at least 1"):
        build("chain", "broadcast", 4, pieces=0)
