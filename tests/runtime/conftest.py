"""Pools of ranks that live across tests, and the engines there are."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ringtree.runtime.engines.engine import ENGINES, in_threads
from ringtree.runtime.launch.spawn import Pool

Pools = Callable[..., Pool]


def available(engine: str) -> bool:
    return engine != "shm" or importlib.util.find_spec("ringtree._native") is not None


@pytest.fixture(params=[name for name in ENGINES if name != "emulated"])
def engine(request: pytest.FixtureRequest) -> str:
    """Every engine that users have, by name. `emulated` has all but its programs from `shm`: the contract holds it to
    numpy's results, tests/runtime/devices to rules of its own, `every_engine` to how calls fail."""
    name = str(request.param)
    if not available(name):
        pytest.skip("the native engine is not built")
    return name


@pytest.fixture(params=list(ENGINES))
def every_engine(request: pytest.FixtureRequest) -> str:
    """Every engine of the table, by name: for what `emulated` has of its own, as how calls fail."""
    name = str(request.param)
    if not available(name):
        pytest.skip("the native engine is not built")
    return name


@pytest.fixture(scope="session")
def pools() -> Iterator[Pools]:
    """pools(engine, n): n ranks that are kept for the next test that asks; made anew when a failure has ended them."""
    kept: dict[tuple[str, int], Pool] = {}

    def get(engine: str, n: int, **options: Any) -> Pool:
        if not available(engine):
            pytest.skip("the native engine is not built")
        pool = kept.get((engine, n))
        if pool is None or not pool.alive:
            pool = kept[engine, n] = Pool(n, engine=engine, threads=in_threads(engine), timeout_s=60, **options)
        return pool

    yield get
    for pool in kept.values():
        pool.close()
