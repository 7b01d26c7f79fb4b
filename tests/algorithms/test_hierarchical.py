"""The default groups, and the options."""

from __future__ import annotations

import pytest

from ringtree import algorithms
from ringtree.algorithms import hierarchical
from ringtree.ir.collective import COLLECTIVES
from ringtree.transform import nest_in_hosts
from ringtree.verify import prove

DEFAULTS = {
    "broadcast": ("chain", "double_tree"),
    "reduce": ("chain", "double_tree"),
    "gather": ("binomial", "binomial"),
    "scatter": ("binomial", "binomial"),
    "all_to_all": ("pairwise", "pairwise"),
}


def test_the_default_group_is_the_divisor_next_to_the_square_root() -> None:
    assert [hierarchical.default_group(n) for n in (1, 2, 3, 4, 6, 8, 12, 13, 16, 64, 100)] == [
        1, 1, 1, 2, 2, 2, 3, 1, 4, 8, 10,
    ]  # fmt: skip


@pytest.mark.parametrize("collective", algorithms.REGISTRY["hierarchical"].serves)
def test_a_prime_has_no_groups(collective: str) -> None:
    root = 3 if COLLECTIVES[collective].rooted else None
    [_, outer] = DEFAULTS.get(collective, ("ring", "halving_doubling"))
    assert algorithms.build("hierarchical", collective, 7, root) == algorithms.build(outer, collective, 7, root)


def test_one_group_is_the_inner_algorithm() -> None:
    for collective in ("reduce_scatter", "all_gather", "all_reduce", "all_to_all"):
        whole = algorithms.build("hierarchical", collective, 6, group=6)
        assert whole == algorithms.build(DEFAULTS.get(collective, ("ring",))[0], collective, 6)


def test_groups_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="groups of 5 do not divide 12 ranks"):
        algorithms.build("hierarchical", "all_reduce", 12, group=5)


@pytest.mark.parametrize("collective", algorithms.REGISTRY["hierarchical"].serves)
def test_groups_of_any_ranks(collective: str) -> None:
    root = 3 if COLLECTIVES[collective].rooted else None
    built = algorithms.build("hierarchical", collective, 4, root, group="0,0,0,1")
    names = DEFAULTS.get(collective, ("ring", "halving_doubling"))
    assert built == nest_in_hosts(collective, *map(algorithms.find, names), (0, 0, 0, 1), root)
    assert built.name == "hierarchical"
    prove(built)


@pytest.mark.parametrize("group", ["0,0,1", "0,0,0,0,1", "0.0.0.1", "a,b,c,d", "0,-1,0,1", ""])
def test_groups_that_do_not_fit_are_refused(group: str) -> None:
    with pytest.raises(ValueError, match="expected a size, or the number of each of 4 ranks' group"):
        algorithms.build("hierarchical", "all_reduce", 4, group=group)


def test_a_size_is_a_whole_number() -> None:
    with pytest.raises(TypeError, match=r"group: got 2\.5; expected a whole number"):
        algorithms.build("hierarchical", "all_reduce", 4, group=2.5)


ALL, SHARDED, TREES = (
    ("all_reduce",),
    ("all_reduce", "reduce_scatter", "all_gather"),
    ("all_reduce", "broadcast", "reduce"),
)


@pytest.mark.parametrize(
    ("inner", "outer", "collectives"),
    [
        ("ring", "ring", SHARDED),
        ("ring", "circulant", SHARDED),
        ("halving_doubling", "ring", SHARDED),
        ("two_shot", "swing", SHARDED),
        ("ring", "recursive_doubling", ALL),
        ("ring", "double_tree", ALL),
        ("flat", "recursive_doubling", ALL),
        ("chain", "double_tree", TREES),
        ("double_tree", "binary_tree", TREES),
        ("binomial", "locality_tree", TREES),
        ("flat", "binomial", ("gather", "scatter")),
        ("one_shot", "pairwise", ("all_to_all",)),
        ("bruck", "bruck", ("all_to_all",)),
    ],
)
@pytest.mark.parametrize(("ranks", "group"), [(8, 4), (12, 3), (15, 5), (6, 1), (6, 6)])
def test_forms(inner: str, outer: str, collectives: tuple[str, ...], ranks: int, group: int) -> None:
    for collective in collectives:
        root = ranks * 2 // 3 if COLLECTIVES[collective].rooted else None
        prove(algorithms.build("hierarchical", collective, ranks, root, group=group, inner=inner, outer=outer))
