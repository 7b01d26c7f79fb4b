"""An error that one rank meets when all has been read is every rank's, too."""

from __future__ import annotations

import contextlib
import gc
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtree
import ringtree.storage
from tests.storage.files import caught, written

MIB = 1 << 20
NBYTES = 64 * MIB
ROOM_BYTES = NBYTES + 40 * MIB
"""For the file's pages, and not for a copy of them."""


def _limit(room_bytes: int) -> list[bytearray]:
    """Gives this process so much more address space, and no more.

    The blocks returned fill what its heap holds free, which no limit of address space counts.
    """
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    taken_bytes = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken_bytes, resource.RLIM_INFINITY))
    filling: list[bytearray] = []
    with contextlib.suppress(MemoryError):
        while True:
            filling.append(bytearray(MIB))
    resource.setrlimit(resource.RLIMIT_AS, (taken_bytes + room_bytes,) * 2)
    return filling


@pytest.mark.parametrize("shard", [None, {"x": slice(None)}])
def test_a_copy_that_one_rank_has_no_room_for(tmp_path: Path, shard: dict[str, slice] | None) -> None:
    entries = {
        "few": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "x": {"dtype": "F64", "shape": [NBYTES // 8], "data_offsets": [3, 3 + NBYTES]},
    }
    path = written(tmp_path / "m", entries, b"abc" + bytes(NBYTES))

    def work(comm: Any) -> tuple[str, str]:
        filling = _limit(ROOM_BYTES) if comm.rank == 1 else []
        refused = caught(lambda: ringtree.storage.load(path, comm, shard=shard, memory="mapped"))
        filling.clear()
        return refused, str(comm.all_reduce(np.ones(1))[0])

    first, second = ringtree.spawn(work, 2, timeout_s=60)
    assert first == second and first[0].startswith("MemoryError: rank 1: Unable to allocate") and first[1] == "2.0"
