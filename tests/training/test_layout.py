"""Where ranks are on a mesh, and with whom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ringtree.training import ParallelLayout
from ringtree.training.core.layout import AXES, JOINED

SIZES = st.integers(1, 3)


@given(st.builds(ParallelLayout, dp=SIZES, tp=SIZES, pp=SIZES, cp=SIZES, ep=SIZES), st.sampled_from([*AXES, *JOINED]))
def test_ranks_of_a_group_differ_along_its_axes_only(layout: ParallelLayout, name: str) -> None:
    along = JOINED.get(name, (name,))
    others = [axis for axis in AXES if axis not in along]
    groups = layout.groups(name)
    assert sorted(rank for group in groups for rank in group) == list(range(layout.ranks))
    assert {len(group) for group in groups} == {layout.size(name)}
    for group in groups:
        positions = [layout.coordinates(rank) for rank in group]
        assert len({tuple(at[axis] for axis in others) for at in positions}) == 1
        assert len({tuple(at[axis] for axis in along) for at in positions}) == len(group)
