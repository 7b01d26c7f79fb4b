"""Schedules that others wrote, run: whatever fits the rank count, proved first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ringtree.formats import load
from ringtree.ir.schedule import Schedule
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

FILES = (
    "msccl_xml/ag-1m.xml",
    "msccl_xml/ag_hier_4_LL.xml",
    "msccl_xml/ap2ll.xml",
    "msccl_xml/ar_tree_12_LL.xml",
    "msccl_xml/a2a2ll.xml",
    "mscclpp_json/allreduce.json",
    "mscclpp_json/reduce.json",
    "mscclpp_json/allreduce_packet.json",
    "mscclpp_json/allreduce_pipeline.json",
    "mscclpp_json/transfer_pack.json",
)


def use(comm: Communicator, schedule: Schedule) -> None:
    x = (np.arange(7 * schedule.chunks * comm.size) % 13 + comm.rank).astype(np.int32)
    call = getattr(comm, schedule.collective)
    for _ in range(2):
        assert np.array_equal(comm.execute(schedule, x), call(x))


@pytest.mark.parametrize("file", FILES)
def test_other_peoples_schedules_run(data_folder: Path, pools: Pools, engine: str, file: str) -> None:
    schedule = load(data_folder / file).schedule
    pools(engine, schedule.ranks).run(use, schedule)
