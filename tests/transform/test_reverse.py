"""Backwards, a collective is its opposite: proved on every algorithm, and on compositions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import algorithms
from ringtree.ir.schedule import Schedule
from ringtree.transform import channels, in_place, nest, pipeline, relabel, reverse
from ringtree.transform.reverse import OPPOSITE
from tests.transform.cases import OF_NO_PREFIX, STRANGE, built, keeps_its_promise


@given(built(collectives=OF_NO_PREFIX), st.integers(1, 3), st.integers(1, 3))
def test_backwards_is_the_opposite(schedule: Schedule, pieces: int, k: int) -> None:
    schedule = pipeline(channels(in_place(schedule), k), pieces)
    back = reverse(schedule)
    assert (back.collective, back.root) == (OPPOSITE[schedule.collective], schedule.root)
    assert back.transfers == schedule.transfers
    assert back.chunks_sent().tolist() == schedule.chunks_received().tolist()
    keeps_its_promise(back)
    keeps_its_promise(reverse(back))


@pytest.mark.parametrize("schedule", STRANGE, ids=lambda s: f"{s.name}{s.ranks}")
def test_strange_ones_turn_too(schedule: Schedule) -> None:
    back = reverse(in_place(schedule))
    keeps_its_promise(back)
    keeps_its_promise(reverse(back))


def test_opposites_are_mutual() -> None:
    assert set(OPPOSITE) == set(OF_NO_PREFIX)
    assert all(OPPOSITE[OPPOSITE[c]] == c for c in OPPOSITE)


@given(built(collectives=("broadcast", "reduce", "all_gather", "reduce_scatter", "scatter", "gather")))
def test_twice_backwards_is_the_same(schedule: Schedule) -> None:
    if not schedule.scratch and schedule.in_place:
        assert reverse(reverse(schedule)) == schedule


@pytest.mark.parametrize("name", ["one_shot", "two_shot", "pairwise"])
def test_two_buffers_turn_too(name: str) -> None:
    for collective in set(algorithms.REGISTRY[name].serves) & set(OF_NO_PREFIX):
        if (name, collective) == ("two_shot", "all_reduce"):
            continue
        for n in (1, 2, 5):
            keeps_its_promise(reverse(algorithms.build(name, collective, n)))


def test_reading_the_output_cannot_be_turned() -> None:
    with pytest.raises(ValueError, match=r"two_shot: reads its output.*expected reverse\(in_place\(schedule\)\)"):
        reverse(algorithms.build("two_shot", "all_reduce", 4))


def test_a_prefix_has_no_opposite() -> None:
    with pytest.raises(ValueError, match="hillis_steele: scan backwards is over later ranks; it has no opposite"):
        reverse(algorithms.build("hillis_steele", "scan", 4))


def test_a_ring_backwards_is_as_short() -> None:
    back = reverse(algorithms.build("ring", "all_gather", 100_000))
    assert back.collective == "reduce_scatter"
    assert [(b.times, len(b.rows)) for b in back.blocks] == [(99_999, 100_000)]
    assert [b.times for b in reverse(algorithms.build("ring", "all_reduce", 6)).blocks] == [5, 5]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("name", ["ring", "double_tree", "halving_doubling"])
def test_all_reduce_is_a_collective_and_its_opposite(name: str, n: int) -> None:
    for collective in set(algorithms.REGISTRY[name].serves) & {"reduce", "reduce_scatter"}:
        there = algorithms.build(name, collective, n)
        keeps_its_promise(there.then(reverse(there), "all_reduce"))
        back = algorithms.build(name, OPPOSITE[collective], n)
        keeps_its_promise(reverse(back).then(back, "all_reduce"))


def test_a_gather_scattered_is_a_broadcast_of_blocks() -> None:
    gather = algorithms.build("flat", "gather", 5, 3)
    keeps_its_promise(relabel(reverse(gather), [4, 3, 2, 1, 0]))


def test_nested_turns_with_scratch() -> None:
    registry = algorithms.REGISTRY
    nested = nest("reduce_scatter", registry["two_shot"], registry["ring"], 6, 3)
    assert nested.scratch
    keeps_its_promise(reverse(nested))
