"""Positions in ranges, laid end to end."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.ir.ranges import elements, positions


@pytest.mark.parametrize("count", [[], [0], [3], [2, 0, 3, 1], [0, 0, 4]])
def test_each_element_has_its_place_in_its_own_range(count: list[int]) -> None:
    assert positions(np.array(count, np.int32)).tolist() == [k for n in count for k in range(n)]


def test_the_elements_of_ranges_have_the_number_of_their_range() -> None:
    which, element = elements(np.array([7, 1, 4]), np.array([2, 0, 3]))
    assert which.tolist() == [0, 0, 2, 2, 2]
    assert element.tolist() == [7, 8, 4, 5, 6]
