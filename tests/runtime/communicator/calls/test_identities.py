"""A composition of two collectives runs, and gives the result of the whole collective."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Schedule
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.transform import in_place
from ringtree.transform.rows import alike
from tests.algorithms.test_identities import IDENTITIES
from tests.runtime.conftest import Pools


def composed(whole: str, first: str, second: str, n: int) -> list[Schedule]:
    """Every algorithm of both at least once; all pairs are proved in tests/algorithms."""
    found = []
    for one, other in zip_longest(serving(first), serving(second)):
        parts = [
            build(name, collective, n, 1 if COLLECTIVES[collective].rooted else None)
            for name, collective in ((one or serving(first)[0], first), (other or serving(second)[0], second))
        ]
        before, after = alike(*map(in_place, parts))
        found.append(before.then(after, whole, f"{before.name}, {after.name}"))
    return found


def same(comm: Communicator, schedules: list[Schedule]) -> list[str]:
    """The schedules that do not give this rank what the collective itself gives it."""
    x = np.arange(120) * (comm.rank + 1)
    wanted = getattr(comm, schedules[0].collective)(x)
    return [s.name for s in schedules if not np.array_equal(comm.execute(s, x), wanted)]


@pytest.mark.parametrize("n", [3, pytest.param(4, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("whole", "first", "second"), IDENTITIES)
def test_the_parts_run_as_the_whole(pools: Pools, engine: str, whole: str, first: str, second: str, n: int) -> None:
    assert pools(engine, n).run(same, composed(whole, first, second, n)) == [[]] * n
