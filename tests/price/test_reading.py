"""Rounds read many at once are those read one by one."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ringtree.algorithms import build
from ringtree.ir.schedule import Block
from ringtree.price import Hosts, SharedMemory, over_hosts
from ringtree.price.pricing import _routes
from ringtree.price.reading import NOTHING, Runs, numbered, read
from ringtree.price.rounds import LinearCost, MessageRound
from tests.price.topologies import TOPOLOGIES

HOSTS = Hosts((0, 1, 2, 2, 2, 2, 2, 0, 1, 1), SharedMemory(cores=2, slots=8, slot_bytes=1 << 17), 30e-6, 235e6)
WHERE = {**TOPOLOGIES, "hosts": over_hosts.topology(HOSTS, 1 << 20)}


def columns(found: MessageRound) -> list[NDArray[np.generic]]:
    """All numbers of a round."""
    numbers: list[NDArray[np.generic]] = []
    for field in fields(found):
        value = getattr(found, field.name)
        if field.name == "hops":
            numbers += [c for hop in value for c in (hop.row, hop.link, hop.lasts.per_chunk_byte_s)]
        elif isinstance(value, LinearCost):
            numbers += [value.fixed_s, value.per_chunk_byte_s]
        else:
            numbers.append(value)
    return numbers


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("name", "collective"),
    [("ring", "all_reduce"), ("two_shot", "all_reduce"), ("bruck", "all_to_all"), ("double_tree", "all_reduce")],
)
def test_many_rounds_at_once_are_those_read_one_by_one(name: str, collective: str, where: str) -> None:
    rows = build(name, collective, 10).expand()
    routes = _routes(WHERE[where], [Block(rows)])
    whole, one_by_one = read(rows, routes, NOTHING), read(rows, routes, NOTHING, at_once=1)
    assert len(whole) == len(one_by_one) == len(np.unique(rows.round))
    for found, expected in zip(whole, one_by_one, strict=True):
        for a, b in zip(columns(found), columns(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1e9)), max_size=60))
def test_sums_in_runs(rows: list[tuple[int, float]]) -> None:
    key, values = np.array([k for k, _ in rows], np.int64), np.array([v for _, v in rows], np.float64)
    expected, last = [], None
    for k, v in rows:
        expected.append(v + (expected[-1] if k == last else 0.0))
        last = k
    np.testing.assert_allclose(Runs.of(key).upto(values), expected, rtol=1e-9, atol=1e-6)


@given(st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 1 << 40, (1 << 62) - 1])] * 4), min_size=1, max_size=30))
def test_equal_rows_alone_have_the_same_number(rows: list[tuple[int, ...]]) -> None:
    found = numbered(*np.array(rows, np.int64).T)
    for a, number in zip(rows, found.tolist(), strict=True):
        assert [number == other for other in found.tolist()] == [a == b for b in rows]
