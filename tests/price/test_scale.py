"""Schedules in pieces and at many sizes, compared with the prices of the schedules; small counts."""

from statistics import median

import pytest

from ringtree.algorithms import build
from ringtree.price import Priced, seconds
from ringtree.price.scale import InPieces, at_sizes
from ringtree.transform import pipeline
from tests.price.topologies import SIZES, TOPOLOGIES


@pytest.mark.parametrize("where", TOPOLOGIES)
def test_in_pieces(where):
    """As the schedule that is cut into as many pieces."""
    topology, ratios = TOPOLOGIES[where], []
    for name in ("binary_tree", "double_tree"):
        for ranks in (2, 8, topology.ranks):
            schedule = build(name, "all_reduce", ranks)
            found = InPieces(schedule, topology)
            for nbytes in SIZES:
                cut = pipeline(schedule, found.count(nbytes))
                ratios.append(found.seconds(nbytes) / seconds(cut, topology, nbytes))
    assert median(ratios) == pytest.approx(1, rel=0.03)
    assert 0.75 < min(ratios) < max(ratios) < (1.5 if where == "work away" else 1.4)


def test_pieces_pay():
    """A long vector in as many pieces as suit it, a short one in one."""
    topology, schedule = TOPOLOGIES["switch"], build("double_tree", "all_reduce", 24)
    found = InPieces(schedule, topology)
    assert found.count(64) == 1
    assert found.count(1 << 26) > 16
    assert found.seconds(1 << 26) < seconds(schedule, topology, 1 << 26) / 2
    broadcast = InPieces(build("chain", "broadcast", 24, 0), topology)  # nobody waits for an answer
    assert broadcast.seconds(1 << 30) == pytest.approx((1 << 30) / 10e9, rel=0.01)


@pytest.mark.parametrize(
    "sizes", [[20 << k for k in range(24)], [1 << 28, 384 << 20, 64, 1 << 29], [1 << 20, 8, 1 << 20], [64]], ids=len
)
def test_at_sizes_as_at_each(sizes):
    """Also where they do not rise, or one is there twice."""
    schedule = build("halving_doubling", "all_reduce", 20)
    priced = Priced(schedule, TOPOLOGIES["work"])
    assert at_sizes(schedule, TOPOLOGIES["work"], sizes) == pytest.approx([priced.seconds(n) for n in sizes], rel=1e-8)
