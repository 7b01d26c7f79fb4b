"""The contract: every collective, by every algorithm that serves it, on every engine, equals numpy's."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from ringtree.algorithms import serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import at_once
from ringtree.runtime.engines.engine import ENGINES, in_threads
from tests.runtime.cases import Case, kinds, sweep
from tests.runtime.conftest import Pools
from tests.runtime.engines.pairs import Row, pairwise

RANKS = (1, 2, 3, 4, 7, 8)
FEW = (1, 2, 3, 4)
"""Rank counts of the quick tests: each rank pays the cost of first calls."""
FEWER = (1, 2, 3)
"""Those of the engines of which each call takes longer."""
COUNTS = (0, 1, 3, 1000, 100003)
COMMON = ("int32", "int64", "float32", "float64", "bfloat16")
"""The types that meet every other choice; they have the same reductions."""
ARITHMETIC = ("sum", "prod", "max", "min", "avg")


def quick_ranks(engine: str) -> tuple[int, ...]:
    return FEW if engine == "shm" else FEWER


def columns(collective: str, ranks: tuple[int, ...] = FEW) -> dict[str, list[object]]:
    return {  # what is expected depends on the first of them only: the complete product computes it once
        "ranks": list(ranks),
        "dtype": list(COMMON),
        "op": [
            op for dtype, op in kinds(collective) if dtype == "int32" and op in ("sum", "prod", "max", "min", "avg")
        ],
        "count": [1] if collective == "barrier" else list(COUNTS),
        "root": ["first", "last"] if COLLECTIVES[collective].rooted else ["first"],
        "algorithm": [None, *serving(collective)],
        "place": ["apart"] if collective == "barrier" else ["apart", "in place"],
        "way": ["plain", "async"]
        if collective == "barrier"
        else ["plain", "async", "symmetric", *_ordered(collective)],
        "blocks": ["even", "uneven"] if COLLECTIVES[collective].blocked else ["even"],
    }


def _ordered(collective: str) -> list[str]:
    return ["ordered"] if at_once(collective) else []


def case_of(collective: str, row: Row) -> Case:
    ordered = row["way"] == "ordered"
    return Case(
        collective,
        row["algorithm"] if not ordered or row["algorithm"] in at_once(collective) else None,
        row["dtype"],
        row["op"],
        row["count"],
        row["place"] == "in place",
        row["ranks"] - 1 if row["root"] == "last" else 0,
        row["way"] == "async",
        row["way"] == "symmetric",
        row["blocks"] == "uneven",
        ordered,
    )


def check(pools: Pools, engine: str, ranks: int, cases: list[Case]) -> None:
    pool = pools(engine, ranks)
    failures = [line for lines in pool.run(sweep, cases) for line in lines]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_every_pair_of_choices_equals_numpy(pools: Pools, engine: str, collective: str) -> None:
    few = quick_ranks(engine)
    rows = pairwise(columns(collective, few))
    assert {row["ranks"] for row in rows} == {*few}
    for ranks in few:
        check(pools, engine, ranks, [case_of(collective, row) for row in rows if row["ranks"] == ranks])


def selected(collective: str) -> list[tuple[str, str]]:
    """Every type with every reduction where all_reduce reduces them; elsewhere, where the same kernels do, every type
    once and every reduction once at least."""
    every = kinds(collective)
    if collective == "all_reduce":
        return every
    ops = {dtype: [op for other, op in every if other == dtype] for dtype, _ in every}
    once = [(dtype, of[turn % len(of)]) for turn, (dtype, of) in enumerate(ops.items())]
    left = {op: dtype for dtype, op in every if op not in {op for _, op in once}}
    return [*once, *((dtype, op) for op, dtype in left.items())]


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("collective", list(COLLECTIVES))
def test_every_type_and_reduction_equals_numpy(pools: Pools, engine: str, collective: str) -> None:
    """With some choice of the rest."""
    few = [ranks for ranks in quick_ranks(engine) if ranks > 1]
    random, rest = Random(collective), columns(collective) | {"ranks": few, "count": [1, 3, 1000]}
    if collective == "barrier":
        return
    rows = [{name: random.choice(of) for name, of in rest.items()} for _ in selected(collective)]
    cases = [row | {"dtype": dtype, "op": op} for row, (dtype, op) in zip(rows, selected(collective), strict=True)]
    for ranks in few:
        check(pools, engine, ranks, [case_of(collective, row) for row in cases if row["ranks"] == ranks])


PAIRS = [(collective, algorithm) for collective in COLLECTIVES for algorithm in (None, *serving(collective))]
SHARES = [
    (engine, dtypes)
    for engine in ENGINES
    for dtypes in ([(dtype,) for dtype in COMMON] if in_threads(engine) else [COMMON])
]
"""The complete campaign in tests of some minutes each: engines whose ranks are threads are slow."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("engine", "dtypes"), SHARES)
@pytest.mark.parametrize(("collective", "algorithm"), PAIRS)
def test_everything_equals_numpy(
    pools: Pools, engine: str, dtypes: tuple[str, ...], collective: str, algorithm: str | None, ranks: int
) -> None:
    chosen = columns(collective) | {"ranks": [ranks], "algorithm": [algorithm], "dtype": list(dtypes)}
    cases = [case_of(collective, dict(zip(chosen, row, strict=True))) for row in product(*chosen.values())]
    check(pools, engine, ranks, cases)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize(("collective", "algorithm"), [pair for pair in PAIRS if pair[0] != "barrier"])
def test_every_type_by_every_algorithm_equals_numpy(
    pools: Pools, engine: str, collective: str, algorithm: str | None, ranks: int
) -> None:
    root = ranks - 1 if COLLECTIVES[collective].rooted else 0
    cases = [
        Case(collective, algorithm, dtype, op, 1003, in_place, root, uneven=uneven)
        for dtype, op in kinds(collective)
        for in_place in (False, True)
        for uneven in {False, COLLECTIVES[collective].blocked}
    ]
    check(pools, engine, ranks, cases)
