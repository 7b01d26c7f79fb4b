"""Partners are one bit away, and all ranks add up in the same tree."""

from __future__ import annotations

import pytest

from ringtree.algorithms.exchanges import halving_doubling, recursive_doubling


@pytest.mark.parametrize("n", [2, 4, 16])
def test_partners_differ_in_one_bit(n: int) -> None:
    for k, part in enumerate(recursive_doubling.all_reduce(n).expand().by_round()):
        assert set((part.source ^ part.target).tolist()) == {1 << k}
        assert len(part) == n


@pytest.mark.parametrize("n", [3, 6, 7, 8, 12])
def test_every_sum_is_the_same_tree(n: int) -> None:
    """Sums as nested sets, so that a+b is b+a but (a+b)+c is not a+(b+c)."""
    held: list[object] = list(range(n))
    for part in recursive_doubling.all_reduce(n).expand().by_round():
        before = list(held)
        for source, target, reduce in zip(
            part.source.tolist(), part.target.tolist(), part.reduce.tolist(), strict=True
        ):
            held[target] = frozenset([before[target], before[source]]) if reduce else before[source]
    assert len(set(held)) == 1


def test_all_gather_is_the_second_half_of_halving_and_doubling() -> None:
    assert recursive_doubling.all_gather(6) == halving_doubling.all_gather(6)
