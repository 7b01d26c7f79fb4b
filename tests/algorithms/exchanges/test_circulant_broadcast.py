"""As few rounds as there can be, for any number of ranks and pieces; everyone hears a new block in every round."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build
from ringtree.algorithms.exchanges import circulant_broadcast
from ringtree.verify import prove


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("n", [2, 3, 7, 8, 17, 33, 100])
def test_rounds_are_the_fewest(n: int, pieces: int) -> None:
    schedule = build("circulant_broadcast", "broadcast", n, 1, pieces=pieces)
    prove(schedule)
    assert schedule.rounds == pieces - 1 + (n - 1).bit_length()
    for part in schedule.expand().by_round():
        assert len(set(part.source.tolist())) == len(part) == len(set(part.target.tolist()))


def test_nobody_hears_a_block_twice() -> None:
    schedule = circulant_broadcast.broadcast(11, 4)
    assert schedule.chunks_received().tolist() == [16 if rank != 4 else 0 for rank in range(11)]


def test_one_piece_is_a_binomial_tree_as_deep() -> None:
    rows = circulant_broadcast.broadcast(8, 0, pieces=1).expand()
    assert list(zip(rows.source.tolist(), rows.target.tolist(), strict=True)) == [
        (0, 1), (0, 2), (1, 3), (0, 4), (1, 5), (2, 6), (3, 7),
    ]  # fmt: skip


def test_no_pieces_are_refused() -> None:
    with pytest.raises(ValueError, match="circulant_broadcast: cut into 0 pieces; expected at least 1"):
        build("circulant_broadcast", "broadcast", 4, pieces=0)
