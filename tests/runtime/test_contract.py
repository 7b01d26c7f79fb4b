"""The contract: every collective, by every algorithm that serves it, on every engine, equals numpy's."""

from __future__ import annotations

from itertools import product

import pytest

from ringtree.algorithms import serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.runtime.engine import ENGINES
from tests.runtime.cases import DTYPES, OPS, Case, reduces, sweep
from tests.runtime.conftest import Pools
from tests.runtime.pairs import Row, pairwise

RANKS = (1, 2, 3, 4, 7, 8)
COUNTS = (0, 1, 3, 1000, 100003)
REDUCING = [c for c, promise in COLLECTIVES.items() if promise.reduces and not promise.repeats]


def columns(collective: str) -> dict[str, list[object]]:
    return {  # what is expected depends on the first of them only: the complete product computes it once
        "ranks": list(RANKS),
        "dtype": list(DTYPES),
        "op": [op for op in OPS if collective in REDUCING and reduces(collective, op)] or ["sum"],
        "count": [1] if collective == "barrier" else list(COUNTS),
        "root": ["first", "last"] if COLLECTIVES[collective].rooted else ["first"],
        "algorithm": [None, *serving(collective)],
        "place": ["apart"] if collective == "barrier" else ["apart", "in place"],
        "way": ["plain", "async"] if collective == "barrier" else ["plain", "async", "symmetric"],
    }


def case_of(collective: str, row: Row) -> Case:
    return Case(
        collective,
        row["algorithm"],
        row["dtype"],
        row["op"],
        row["count"],
        row["place"] == "in place",
        row["ranks"] - 1 if row["root"] == "last" else 0,
        row["way"] == "async",
        row["way"] == "symmetric",
    )


def check(pools: Pools, engine: str, ranks: int, cases: list[Case]) -> None:
    pool = pools(engine, ranks)
    failures = [line for lines in pool.run(sweep, cases) for line in lines]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_every_pair_of_choices_equals_numpy(pools: Pools, engine: str, collective: str) -> None:
    rows = pairwise(columns(collective))
    assert len(rows) >= len(RANKS)
    for ranks in RANKS:
        check(pools, engine, ranks, [case_of(collective, row) for row in rows if row["ranks"] == ranks])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_everything_equals_numpy(pools: Pools, engine: str, collective: str, ranks: int) -> None:
    chosen = columns(collective) | {"ranks": [ranks]}
    cases = [case_of(collective, dict(zip(chosen, row, strict=True))) for row in product(*chosen.values())]
    check(pools, engine, ranks, cases)
