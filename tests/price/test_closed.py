"""Closed forms, compared with the prices of their schedules; small counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.price import Priced
from ringtree.price.closed import CLOSED, closed_form
from tests.price.topologies import SIZES, TOPOLOGIES

STANDS_FOR = {
    ("all_reduce", "ring"): 0,
    ("reduce_scatter", "ring"): 1,
    ("all_gather", "ring"): 2,
    ("all_reduce", "torus"): 3,
    ("all_reduce", "hierarchical"): 4,
}


def made(name: str, collective: str, ranks: int, group: int) -> Schedule:
    return build(name, collective, ranks, **({"group": group} if name == "hierarchical" else {}))


@pytest.mark.parametrize("where", TOPOLOGIES)
@pytest.mark.parametrize(("collective", "name"), STANDS_FOR)
def test_a_form_costs_as_much_as_its_schedule(collective: str, name: str, where: str) -> None:
    topology = TOPOLOGIES[where]
    group = int((topology.hosts == 0).sum())
    form = closed_form(lambda ranks, group: made(name, collective, ranks, group))
    assert form is CLOSED[STANDS_FOR[collective, name]]
    for ranks in {group, topology.ranks}:
        seconds = form(topology, ranks)
        priced = Priced(made(name, collective, ranks, group), topology)
        ratios = [seconds(nbytes) / priced.seconds(nbytes) for nbytes in SIZES]
        near = 0.36 if name == "torus" else 0.25 if where == "not alike" else 0.1  # rounds are not barriers
        assert ratios == pytest.approx([1] * len(SIZES), rel=near), ranks
        if (where, name) == ("rails", "ring"):
            assert ratios == pytest.approx([1] * len(SIZES), rel=0.02)


def test_hosts_must_be_whole() -> None:
    with pytest.raises(ValueError, match="12 ranks on hosts of 8: expected a multiple"):
        CLOSED[4](TOPOLOGIES["rails"], 12)


def backwards(ranks: int, group: int) -> Schedule:
    """A ring the other way round."""
    ring = build("ring", "all_gather", ranks)
    rank = np.arange(ranks)
    blocks = tuple(replace(b, rows=replace(b.rows, target=((rank - 1) % ranks).astype(np.int32))) for b in ring.blocks)
    return replace(ring, blocks=blocks)


def longer(ranks: int, group: int) -> Schedule:
    """A ring, and a word more."""
    ring = build("ring", "all_reduce", ranks)
    return replace(ring, blocks=(*ring.blocks, Block(Transfers.of(0, 1))))


@pytest.mark.parametrize(
    "other",
    [
        backwards,
        longer,
        lambda ranks, group: build("ring", "all_reduce", ranks) if ranks == 12 else build("torus", "all_reduce", ranks),
        lambda ranks, group: build("hierarchical", "all_reduce", ranks, group=4),  # whatever the hosts
        lambda ranks, group: build("hierarchical", "all_reduce", ranks),
        lambda ranks, group: build("torus_3d", "all_reduce", ranks),
        lambda ranks, group: build("torus", "all_gather", ranks),
        lambda ranks, group: None,
    ],
)
def test_other_schedules_have_no_form(other) -> None:  # type: ignore[no-untyped-def]
    assert closed_form(other) is None
