"""Some seconds of `make growth`; and that it finds a plan, a mapping or a descriptor that is kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.conftest import available
from tests.runtime.growth.limits import grown_by, held, most

pytestmark = [
    pytest.mark.skipif(not available("shm"), reason="the native engine is not built"),
    pytest.mark.timeout(300),
]
QUICK = {"sizes": 12_000, "groups": 400, "worlds": 40}


def excess(records: list[dict[str, Any]]) -> list[str]:
    return [
        f"{record['part']}: {name} of rank {rank} grew by {more:,} over {record['number']:,}"
        for record in records
        for rank, looks in enumerate(record["by_rank"])
        for name, more in grown_by(looks).items()
        if more > most(name)
    ]


def test_nothing_grows() -> None:
    records = held(2, QUICK, 200.0)
    assert [record["part"] for record in records] == list(QUICK)
    assert all(len(looks) == 10 for record in records for looks in record["by_rank"])
    assert not (wrong := excess(records)), "\n".join(wrong)
