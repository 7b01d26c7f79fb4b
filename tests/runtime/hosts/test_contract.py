"""The contract over hosts: every collective, by every algorithm that serves it, equals numpy's."""

from __future__ import annotations

from random import Random

import pytest

from ringtree.ir.collective import COLLECTIVES
from tests.runtime.cases import Case, kinds, sweep
from tests.runtime.engines.pairs import pairwise
from tests.runtime.engines.test_contract import case_of, columns
from tests.runtime.hosts.conftest import HostPools, Layout

LAYOUTS: tuple[Layout, ...] = ((1, 1), (2, 1), (1, 1, 2))
"""Of the quick tests."""
ALL_LAYOUTS: tuple[Layout, ...] = ((1, 1), (2, 2), (3, 3), (1, 1, 1), (2, 2, 2), (3, 3, 3), (3, 1), (1, 3, 2))


def check(host_pools: HostPools, layout: Layout, cases: list[Case], wire: str) -> None:
    failures = [line for lines in host_pools(layout, wire).run(sweep, cases) for line in lines]
    assert not failures, "\n".join(failures)


def cases_of(collective: str, ranks: int) -> list[Case]:
    rows = pairwise(columns(collective) | {"ranks": [ranks]})
    return [case_of(collective, row) for row in rows]


@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_pairs_of_choices_equal_numpy(host_pools: HostPools, wire: str, collective: str) -> None:
    layout = LAYOUTS[list(COLLECTIVES).index(collective) % len(LAYOUTS)]
    check(host_pools, layout, cases_of(collective, sum(layout)), wire)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=str)
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_every_pair_of_choices_equals_numpy(host_pools: HostPools, wire: str, collective: str, layout: Layout) -> None:
    check(host_pools, layout, cases_of(collective, sum(layout)), wire)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=str)
@pytest.mark.parametrize("collective", [name for name in COLLECTIVES if name != "barrier"])
def test_every_type_and_reduction_equals_numpy(
    host_pools: HostPools, wire: str, collective: str, layout: Layout
) -> None:
    """Each once, with some choice of the rest."""
    random, rest = Random(collective), columns(collective) | {"ranks": [sum(layout)], "count": [1, 3, 1000]}
    rows = [{name: random.choice(of) for name, of in rest.items()} for _ in kinds(collective)]
    cases = [row | {"dtype": dtype, "op": op} for row, (dtype, op) in zip(rows, kinds(collective), strict=True)]
    check(host_pools, layout, [case_of(collective, row) for row in cases], wire)
