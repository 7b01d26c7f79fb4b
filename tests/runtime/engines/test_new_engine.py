"""The acceptance test of engines: one that nobody here knows, a module and a line in the table, runs calls."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from ringtree import Communicator, spawn
from ringtree.runtime.engines.engine import ENGINES, GroupParameters, JoinedGroup
from ringtree.runtime.engines.reference import engine as reference


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> str:
    """The reference engine with twice as many staging slots."""

    def join(parameters: GroupParameters) -> JoinedGroup:
        return reference.join(parameters._replace(slots=2 * max(reference.SLOTS, parameters.ranks, parameters.slots)))

    module = ModuleType("roomy")
    module.join, module.IN_THREADS = join, True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "roomy", module)
    monkeypatch.setitem(ENGINES, "roomy", "roomy")
    return "roomy"


def total(comm: Communicator) -> list[float]:
    return comm.all_reduce(np.full(3, comm.rank + 1.0)).tolist()


def test_a_new_engine_runs_calls(roomy: str) -> None:
    assert spawn(total, 3, engine=roomy, threads=True, timeout_s=60) == [[6.0] * 3] * 3


def test_an_engine_of_threads_refuses_processes(roomy: str) -> None:
    with pytest.raises(ValueError, match="the roomy engine's ranks are threads: pass threads=True"):
        spawn(total, 3, engine=roomy)
