"""Any two algorithms nest, in groups of any size that divides the ranks; each level sends its share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import algorithms
from ringtree.algorithms import REGISTRY
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Schedule
from ringtree.transform import channels, nest, pipeline, relabel
from ringtree.transform.phases import INSIDE, PHASES
from tests.transform.cases import Strange, keeps_its_promise


class Cut:
    """An algorithm whose schedules are pipelined, so that its blocks have several chunks."""

    def __init__(self, name: str, pieces: int) -> None:
        self.name, self.pieces, self.serves = name, pieces, REGISTRY[name].serves

    def build(self, collective: str, ranks: int, root: int | None = None, /) -> Schedule:
        return pipeline(REGISTRY[self.name].build(collective, ranks, root), self.pieces)


def pairs_that_nest() -> list[tuple[str, str, str]]:
    serves = {name: set(a.serves) for name, a in REGISTRY.items() if name != "hierarchical"}
    return [
        (collective, inner, outer)
        for collective, choices in PHASES.items()
        for inner in serves
        for outer in serves
        if any(all(what in serves[inner if where == INSIDE else outer] for where, what in way) for way in choices)
    ]


def test_there_are_many_pairs() -> None:
    nested = pairs_that_nest()
    assert len(nested) >= 78
    assert {c for c, _, _ in nested} == set(PHASES)


INNERS = sorted({(collective, inner) for collective, inner, _ in pairs_that_nest()})
SHAPES = [
    ((6, 3),),
    pytest.param(((1, 1), (2, 1), (2, 2), (6, 2), (8, 2), (8, 4), (10, 5), (9, 3)), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize(("collective", "inner"), INNERS)
def test_all_pairs_are_right(collective: str, inner: str, shapes: tuple[tuple[int, int], ...]) -> None:
    for outer in (o for c, i, o in pairs_that_nest() if (c, i) == (collective, inner)):
        for ranks, group in shapes:
            root = ranks - 1 if COLLECTIVES[collective].rooted else None
            nested = nest(collective, REGISTRY[inner], REGISTRY[outer], ranks, group, root)
            assert (nested.name, nested.ranks, nested.root) == (f"{inner}+{outer}", ranks, root)
            keeps_its_promise(nested)


@given(
    st.data(),
    st.sampled_from(pairs_that_nest()),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_cut_turned_and_renamed_ones_are_right(
    data: st.DataObject, names: tuple[str, str, str], group: int, groups: int, first: int, second: int
) -> None:
    collective, inner, outer = names
    ranks = group * groups
    root = data.draw(st.integers(0, ranks - 1)) if COLLECTIVES[collective].rooted else None
    nested = nest(collective, Cut(inner, first), Cut(outer, second), ranks, group, root)
    keeps_its_promise(nested)
    keeps_its_promise(pipeline(channels(nested, 2), second))
    keeps_its_promise(relabel(nested, data.draw(st.permutations(range(ranks)))))


def test_strange_ones_nest() -> None:
    for collective, known in (("all_gather", REGISTRY["ring"]), ("broadcast", REGISTRY["chain"])):
        for inner, outer in ((Strange(), known), (known, Strange()), (Strange(), Strange())):
            for ranks, group in ((6, 2), (6, 3), (12, 4), (5, 1), (5, 5)):
                root = ranks * 2 // 3 if collective == "broadcast" else None
                keeps_its_promise(nest(collective, inner, outer, ranks, group, root))


def test_three_levels() -> None:
    class Two:
        name, serves = "two levels", ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce")

        def build(self, collective: str, ranks: int, root: int | None = None, /) -> Schedule:
            return nest(collective, REGISTRY["ring"], REGISTRY["two_shot"], ranks, 2, root)

    for collective in ("all_reduce", "reduce_scatter", "all_gather"):
        keeps_its_promise(nest(collective, REGISTRY["halving_doubling"], Two(), 12, 3))
        keeps_its_promise(nest(collective, Two(), REGISTRY["ring"], 12, 6))


@pytest.mark.parametrize(("ranks", "group"), [(16, 4), (12, 3), (6, 6), (6, 1)])
def test_between_groups_only_shards_travel(ranks: int, group: int) -> None:
    nested = nest("all_reduce", REGISTRY["ring"], REGISTRY["ring"], ranks, group)
    rows = nested.expand()
    assert np.all((rows.source // group == rows.target // group) | (rows.source % group == rows.target % group)), (
        "a rank talks to its group and to those of its index"
    )
    between = rows.take(rows.source // group != rows.target // group)
    sent = np.bincount(between.source, between.count, ranks) / nested.chunks
    groups = ranks // group
    assert sent == pytest.approx(2 * (groups - 1) / groups / group)


def test_inside_one_shard_is_one_transfer() -> None:
    nested = nest("all_reduce", REGISTRY["ring"], REGISTRY["halving_doubling"], 16, 4)
    inside = nested.blocks[0]
    assert (inside.times, len(inside.rows), set(inside.rows.count.tolist())) == (3, 16, {4})


def test_blocks_stay_short_where_they_can() -> None:
    scatter = nest("reduce_scatter", REGISTRY["ring"], REGISTRY["ring"], 12, 3)
    assert [b.times for b in scatter.blocks] == [2, 3]
    gather = nest("all_gather", REGISTRY["ring"], REGISTRY["ring"], 12, 3)
    assert [b.times for b in gather.blocks] == [3, 2]


def test_a_broadcast_is_one_block_so_that_all_of_it_pipelines() -> None:
    nested = nest("broadcast", REGISTRY["chain"], REGISTRY["double_tree"], 12, 4, 7)
    assert (len(nested.blocks), nested.rounds) == (1, 2 + 3)
    assert [b.rounds for b in pipeline(nested, 9).blocks] == [4, 1, 4]


def test_options_of_the_hierarchical_algorithm() -> None:
    schedule = algorithms.build("hierarchical", "all_reduce", 12, group=4, inner="double_tree", outer="two_shot")
    assert schedule.name == "hierarchical"
    keeps_its_promise(schedule)
    with pytest.raises(ValueError, match="no algorithm 'rign': expected one of ring"):
        algorithms.build("hierarchical", "all_reduce", 12, inner="rign")


def test_schedules_that_do_not_nest_are_refused() -> None:
    ring, tree, flat = (REGISTRY[name] for name in ("ring", "double_tree", "flat"))
    with pytest.raises(ValueError, match="groups of 5 do not divide 12 ranks; expected a divisor of 12"):
        nest("all_reduce", ring, tree, 12, 5)
    with pytest.raises(ValueError, match="scan is not nested; expected one of all_reduce"):
        nest("scan", ring, tree, 12, 4)
    with pytest.raises(ValueError, match="all_gather of flat inside ring needs all_gather by ring, all_gather by flat"):
        nest("all_gather", flat, ring, 12, 4)
