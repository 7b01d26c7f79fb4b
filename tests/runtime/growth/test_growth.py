"""Some seconds of `make growth`; and that it finds plans and groups that are kept."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ringtree import spawn
from ringtree.runtime.communicator.calls import plans
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import available
from tests.runtime.growth import limits
from tests.runtime.growth.limits import excess, held
from tests.runtime.growth.rank import play

pytestmark = [
    pytest.mark.skipif(not available("shm"), reason="the native engine is not built"),
    pytest.mark.timeout(300),
]
QUICK = {"sizes": 3000, "groups": 100, "worlds": 10}


def test_nothing_grows() -> None:
    records = held(2, QUICK, 200.0)
    assert [record["part"] for record in records] == list(QUICK)
    assert all(len(looks) == 10 for record in records for looks in record["by_rank"])
    assert not (wrong := excess(records)), "\n".join(wrong)


def found(part: str, number: int) -> str:
    by_rank = spawn(play, 2, part, number, timeout_s=60)
    return "\n".join(excess([{"part": part, "number": number, "by_rank": by_rank}]))


def test_plans_that_are_kept_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "KEPT", 1 << 30)
    monkeypatch.setattr(limits, "MOST_NBYTES", 1 << 20)
    assert re.search(r"sizes: \w+_nbytes of rank \d grew by", found("sizes", 2000))


def test_groups_that_are_kept_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    whole = Communicator.duplicate

    def duplicate(comm: Communicator) -> Communicator:
        kept.append(whole(comm))
        return kept[-1]

    monkeypatch.setattr(Communicator, "duplicate", duplicate)
    monkeypatch.setattr(Communicator, "close", lambda _: None)
    assert re.search(r"groups: mappings of rank \d grew by", found("groups", 40))
