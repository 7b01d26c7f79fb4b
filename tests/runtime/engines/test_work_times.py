"""The time of a core that a call's copies and reductions took, by which a group chooses between staging and single
copies (decision 0091): without waits, with what a rank copies for another while it waits."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ringtree import _native
from tests.runtime.engines.native_world import prepare, run, values, world
from tests.runtime.engines.test_single_copy import LEAST, LONG, READS, broadcast, content


@pytest.mark.parametrize("single_copy", [False, pytest.param(True, marks=READS)])
def test_the_time_of_a_call_s_work_is_without_its_waits(single_copy: bool) -> None:
    """Rank 0, which receives, waits for rank 1 for a quarter of a second."""
    late_s = 0.25

    def rank_of(group: _native.Group, rank: int) -> tuple[float, float]:
        window = 0 if single_copy else LEAST // 4
        plan = prepare(group, broadcast(rank, 2, 1), LONG, redop=None, window=window, single_copy=single_copy)
        x = content(1) if rank else np.zeros(LONG, np.float32)
        run(group, plan, x, x)
        if rank:
            time.sleep(late_s)
        began_s = time.perf_counter()
        work_s = group.run_timed(plan, x.ctypes.data, x.ctypes.data)
        assert np.array_equal(x, content(1))
        return work_s, time.perf_counter() - began_s

    (work_s, wall_s), _ = values(world(2, rank_of, single_copy_bytes=LEAST))
    assert 0 < work_s < late_s / 2 < late_s * 0.8 < wall_s


@READS
def test_what_a_root_copies_while_it_waits_counts_once() -> None:
    """In place the root waits in the midst of its work, and helps its receiver meanwhile."""
    mib = 1 << 18  # elements

    def rank_of(group: _native.Group, rank: int) -> list[tuple[float, float]]:
        plan = prepare(group, broadcast(rank, 2, 1), 4 * mib, redop=None, window=0, single_copy=True)
        x, found = np.ones(4 * mib, np.float32), []
        for _ in range(30):
            began_s = time.thread_time()
            work_s = group.run_timed(plan, x.ctypes.data, x.ctypes.data)
            found.append((work_s, time.thread_time() - began_s))
        return found

    for times in values(world(2, rank_of, single_copy_bytes=LEAST)):
        assert all(0 <= work_s <= core_s for work_s, core_s in times)


def test_the_time_of_a_started_call_is_its_own() -> None:
    """A call right behind it, which may run it first, has a time of its own, whether anybody asks for the other's."""

    def rank_of(group: _native.Group, rank: int) -> bool:
        x, little = content(1) if rank else np.zeros(LONG, np.float32), np.zeros(256, np.float32)
        program, options = broadcast(rank, 2, 1), {"redop": None, "window": LEAST // 4}
        long, short = (prepare(group, program, len(each), **options) for each in (x, little))
        run(group, long, x, x)
        ticket = group.start_timed(long, x.ctypes.data, x.ctypes.data)
        short_s = [group.run_timed(short, little.ctypes.data, little.ctypes.data)]
        long_s = group.work_s(ticket)
        group.start(long, x.ctypes.data, x.ctypes.data)
        short_s.append(group.run_timed(short, little.ctypes.data, little.ctypes.data))
        assert long_s is not None and group.work_s(ticket) is None
        return 0 < min(short_s) <= max(short_s) < long_s / 4

    assert values(world(2, rank_of)) == [True] * 2
