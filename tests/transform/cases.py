"""What the transforms are tried on: every algorithm for every collective it serves, over any few ranks."""

from __future__ import annotations

from hypothesis import strategies as st

from ringtree import algorithms
from ringtree.ir import spec
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Schedule
from tests import oracle


def keeps_its_promise(schedule: Schedule) -> None:
    spec.check(schedule)
    assert oracle.wrong(schedule) is None


@st.composite
def built(draw: st.DrawFn, largest: int = 9, collectives: tuple[str, ...] = tuple(COLLECTIVES)) -> Schedule:
    """Any schedule of the registry."""
    name, collective = draw(st.sampled_from([p for p in algorithms.pairs() if p[1] in collectives]))
    ranks = draw(st.integers(1, largest))
    root = draw(st.integers(0, ranks - 1)) if COLLECTIVES[collective].rooted else None
    return algorithms.build(name, collective, ranks, root)
