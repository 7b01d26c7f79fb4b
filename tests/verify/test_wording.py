"""The words of messages."""

from __future__ import annotations

import pytest

from ringtree.ir.collective import REDUCED
from ringtree.verify.wording import origins_of, promise_in_words, ranks_in_words, value_in_words


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([3], "rank 3"),
        ([1, 0], "ranks 0, 1"),
        ([0, 1, 2], "ranks 0..2"),
        ([0, 2, 3, 4, 7, 8], "ranks 0, 2..4, 7, 8"),
        ([], "ranks none"),
    ],
)
def test_ranks(ranks: list[int], words: str) -> None:
    assert ranks_in_words(ranks) == words


def test_values_and_promises_use_the_same_words() -> None:
    assert value_in_words(-1, []) == "nothing"
    assert value_in_words(4, [2]) == promise_in_words(4, 2, 8) == "rank 2's chunk 4"
    assert value_in_words(4, range(3)) == promise_in_words(4, REDUCED, range(3)) == "the sum of ranks 0..2 of chunk 4"
    assert origins_of(0b101001) == [0, 3, 5]
