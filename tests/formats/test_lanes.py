"""Lanes hold every interval, none overlap in one, and there are no more than must be."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ringtree.formats.lanes import lanes

INTERVALS = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 20), st.integers(0, 6)), max_size=30)


@given(INTERVALS)
def test_lanes_are_as_few_as_can_be(intervals: list[tuple[int, int, int]]) -> None:
    track, start, length = np.array(intervals, dtype=np.int64).reshape(-1, 3).T
    lane = lanes(track, start, start + length)
    for t in set(track.tolist()):
        own = [(s, s + d, at) for s, d, at in zip(start[track == t], length[track == t], lane[track == t], strict=True)]
        long = [(s, e, at) for s, e, at in own if e > s]
        assert all(at == 0 for s, e, at in own if e == s)
        depth = max((sum(s <= moment < e for s, e, _ in long) for moment in range(30)), default=0)
        assert {at for *_, at in long} == set(range(depth))
        for s, e, at in long:
            assert [x for x in long if x[2] == at and x[0] < e and x[1] > s] == [(s, e, at)]
