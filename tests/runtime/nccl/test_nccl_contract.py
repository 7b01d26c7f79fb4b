"""The engines' contract over Gloo: every collective, by every algorithm that serves it, equals numpy's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from random import Random

import pytest

from ringtree.ir.collective import COLLECTIVES
from ringtree.runtime.launch.spawn import Pool
from tests.runtime.cases import Case, kinds, sweep
from tests.runtime.engines.pairs import pairwise
from tests.runtime.engines.test_contract import FEW, case_of, columns

pytestmark = pytest.mark.torch
PAIRS = ("minloc", "maxloc")
"""The reductions that devices do not have."""


def check(pool: Pool, cases: list[Case]) -> None:
    failures = [line for lines in pool.run(sweep, cases) for line in lines]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_every_pair_of_choices_equals_numpy(gloo: Callable[[int], Pool], collective: str) -> None:
    rows = pairwise(columns(collective))
    assert len(rows) >= len(FEW)
    for ranks in FEW:
        check(gloo(ranks), [case_of(collective, row) for row in rows if row["ranks"] == ranks])


@pytest.mark.parametrize("collective", [name for name in COLLECTIVES if name != "barrier"])
def test_every_type_and_reduction_equals_numpy(gloo: Callable[[int], Pool], collective: str) -> None:
    """By turns by the backend's own call or its program, and by some algorithm."""
    random, rest = Random(collective), columns(collective) | {"ranks": [2, 3, 4], "count": [1, 3, 1000]}
    served = [kind for kind in kinds(collective) if kind[1] not in PAIRS]
    rows = [
        {name: random.choice(of) for name, of in rest.items()} | {"dtype": dtype, "op": op} | chosen
        for (dtype, op), chosen in zip(served, cycle(({"algorithm": None}, {}, {})))
    ]
    for ranks in (2, 3, 4):
        check(gloo(ranks), [case_of(collective, row) for row in rows if row["ranks"] == ranks])
