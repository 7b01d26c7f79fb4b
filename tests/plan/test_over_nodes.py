"""Choices for ranks on a made-up machine with two sockets: nested in its nodes where that pays, else as on one node."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from ringtree.algorithms.groups import even
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import candidates, choose, nested_candidates, shortlist, steps_for
from ringtree.plan.choice import MAX_RANKS
from ringtree.price.memory import SharedMemory, counts
from ringtree.runtime.engines.shm import staging
from ringtree.verify import prove

KIB, MIB = 1 << 10, 1 << 20
SIZES = (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB)


def sockets(each: int, count: int = 2) -> SharedMemory:
    """Ranks with a core each, `each` in a socket."""
    ranks = each * count
    return SharedMemory(ranks, *staging(ranks), node_of=tuple(rank // each for rank in range(ranks)))


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("nbytes", [128 * KIB, MIB, 4 * MIB])
def test_two_sockets_of_four_are_nested(collective: str, nbytes: int) -> None:
    memory = sockets(4)
    plain = choose(collective, 8, nbytes, memory=replace(memory, node_of=()))
    assert plain.algorithm == "two_shot" and not plain.options
    found = choose(collective, 8, nbytes, memory=memory)
    assert found.algorithm == "hierarchical" and dict(found.options)["group"] == 4
    assert "predicted for two_shot in NUMA nodes and " in found.why
    steps = steps_for(found.algorithm, collective, 8, None, nbytes, memory, found.options)
    assert steps.options == found.options
    schedule = steps.apply(found.algorithm, collective, 8)
    prove(schedule)
    flat, nested = (
        counts(s, memory.node_of)
        for s in (steps_for("two_shot", collective, 8, None, nbytes, memory).apply("two_shot", collective, 8), schedule)
    )
    crossed = [(c.times @ c.links).max() / c.chunks for c in (flat, nested)]
    assert crossed[1] <= crossed[0] / 2, "bytes on the link"


def test_short_calls_are_not_nested() -> None:
    """Two more synchronizations cost more than the bytes that cross."""
    for collective in ("all_reduce", "all_gather", "broadcast", "reduce"):
        assert not choose(collective, 8, 8, memory=sockets(4)).options


def test_a_broadcast_by_the_root_alone_gives_way_to_a_tree() -> None:
    """All four ranks of the other socket would read the root's bytes over the link."""
    assert choose("broadcast", 8, MIB, memory=replace(sockets(4), node_of=())).algorithm == "flat"
    assert choose("broadcast", 8, MIB, memory=sockets(4)).algorithm == "double_tree"


@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_with_one_node_nothing_changes(ranks: int) -> None:
    for collective, cores, nbytes in product(COLLECTIVES, (2, 8), SIZES):
        plain = SharedMemory(cores, *staging(ranks))
        one = replace(plain, node_of=(1,) * ranks)
        assert choose(collective, ranks, nbytes, memory=one) == choose(collective, ranks, nbytes, memory=plain)
        names = shortlist(collective, ranks)
        assert candidates(names, collective, ranks, nbytes, one) == candidates(names, collective, ranks, nbytes, plain)
        assert not nested_candidates(collective, ranks, nbytes, one)


def test_ranks_in_any_order_are_nested_in_their_nodes() -> None:
    memory = replace(sockets(4), node_of=(0, 1) * 4)
    found = choose("all_reduce", 8, MIB, memory=memory)
    assert dict(found.options)["group"] == "0,1,0,1,0,1,0,1"
    prove(
        steps_for(found.algorithm, "all_reduce", 8, None, MIB, memory, found.options).apply(
            found.algorithm, "all_reduce", 8
        )
    )


def test_a_rank_on_each_node_is_not_nested() -> None:
    assert not nested_candidates("all_reduce", 2, MIB, replace(sockets(1), node_of=(0, 1)))


def test_calls_in_rank_order_are_not_nested() -> None:
    assert not choose("all_reduce", 8, MIB, rank_order=True, memory=sockets(4)).options


@pytest.mark.parametrize("each", [16, 48])
def test_many_ranks_are_nested_as_the_few_they_are_planned_as(each: int) -> None:
    ranks, memory = 2 * each, sockets(each)
    found = choose("all_reduce", ranks, 16 * MIB, memory=memory)
    assert dict(found.options)["group"] == each and (ranks > MAX_RANKS) == (each > 32)
    steps = steps_for(found.algorithm, "all_reduce", ranks, None, 16 * MIB, memory, found.options)
    assert steps.options[:3] == found.options and 0 < steps.slots <= memory.slots


@pytest.mark.parametrize(
    ("group_of", "each"), [((0, 0, 1, 1), 2), ((3, 3, 3), 3), ((0, 1, 0, 1), 0), ((0, 0, 1), 0), ((0, 0, 1, 0), 0)]
)
def test_groups_that_are_even_have_a_size(group_of: tuple[int, ...], each: int) -> None:
    assert even(group_of) == each
