"""Ranks of the nccl engine over Gloo: the same code as between GPUs, on arrays in host memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ringtree.runtime.launch.spawn import Pool

CARRIER = "RINGTREE_NCCL_CARRIER"


@pytest.fixture
def over_gloo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of the nccl engine made in the test are over Gloo."""
    monkeypatch.setenv(CARRIER, "gloo")


@pytest.fixture(scope="session")
def gloo() -> Iterator[Callable[[int], Pool]]:
    """gloo(n): n such ranks, kept for the next test that asks; made anew when a failure has ended them."""
    kept: dict[int, Pool] = {}

    def get(n: int) -> Pool:
        if n not in kept or not kept[n].alive:
            with pytest.MonkeyPatch.context() as environment:
                environment.setenv(CARRIER, "gloo")
                kept[n] = Pool(n, engine="nccl", timeout_s=60)
        return kept[n]

    yield get
    for pool in kept.values():
        pool.close()
