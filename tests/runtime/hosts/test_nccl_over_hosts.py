"""The nccl engine between hosts: its backend over Gloo finds rank 0, and each rank, where the bootstrap does."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.hosts.conftest import Layout, Ranks

pytestmark = pytest.mark.torch


def totals(comm: Communicator) -> list[list[float]]:
    beside = comm.beside("nccl", engine="nccl")
    x = np.arange(6, dtype=np.float32) + comm.rank
    return [beside.all_reduce(x, algorithm=algorithm).tolist() for algorithm in (None, "ring")]


@pytest.mark.parametrize("layout", [(1, 1), (2, 1, 1)], ids=str)
def test_programs_run_between_hosts(ranks: Ranks, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_NCCL_CARRIER", "gloo")
    n = sum(layout)
    expected = [[n * i + n * (n - 1) / 2 for i in range(6)]] * 2
    outcomes = dict(ranks(layout, totals).finish())
    assert {rank: outcome.result or outcome.story for rank, outcome in outcomes.items()} == dict.fromkeys(
        range(n), expected
    )
