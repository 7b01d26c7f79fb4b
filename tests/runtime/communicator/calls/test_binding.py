"""Where chunks lie in memory: sizes, windows, digests."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Schedule
from ringtree.plan import choose
from ringtree.runtime.communicator.calls.binding import (
    RankProgram,
    built,
    chunk_sizes,
    part_of,
    slots_needed_by,
    window,
)
from ringtree.runtime.engines import shm
from ringtree.runtime.types import Dtype


@pytest.mark.parametrize("count", [0, 1, 3, 7, 8, 100003])
def test_chunks_are_even_and_make_up_the_whole(count: int) -> None:
    sizes = chunk_sizes(built("ring", "all_reduce", 7, -1, 0).program, count)
    assert sizes.sum() == count
    assert sizes.max() - sizes.min() <= 1


def test_blocks_are_alike_where_the_whole_is_blocks() -> None:
    schedule = build("ring", "reduce_scatter", 4)
    sizes = chunk_sizes(part_of(schedule, 0).program, 4 * 10)
    blocks = sizes.reshape(4, -1)
    assert (blocks.sum(axis=1) == 10).all()
    assert (blocks == blocks[0]).all()


def test_a_window_is_the_same_on_all_ranks_and_its_widest_message_fits() -> None:
    for algorithm, collective in pairs():
        parts = [part_of(build(algorithm, collective, 8), rank) for rank in range(8)]
        windows = {window(p, 1 << 14, Dtype.FLOAT32) for p in parts}
        assert len(windows) == 1, (algorithm, collective)
        assert windows.pop() * 4 * max(p.widest for p in parts) <= 1 << 14


def test_a_message_that_can_not_fit_is_refused() -> None:
    part = built("ring", "all_reduce", 8, -1, 0)
    with pytest.raises(ValueError, match="does not fit a staging slot of 8 bytes"):
        window(RankProgram(part.program, part.digest, 4), 8, Dtype.FLOAT32)


def test_digests_are_equal_on_ranks_and_differ_by_schedule() -> None:
    seen: dict[int, Schedule] = {}
    for algorithm, collective in pairs():
        schedule = build(algorithm, collective, 5)
        digests = {part_of(schedule, rank).digest for rank in range(5)}
        assert len(digests) == 1
        digest = digests.pop()
        assert 0 <= digest < 1 << 32
        assert seen.setdefault(digest, schedule) == schedule, (algorithm, collective)
    assert len(seen) > 15


@pytest.mark.parametrize("ranks", [2, 3, 8, 13, 16, 32])
def test_engines_have_the_slots_that_the_rules_choices_need(ranks: int) -> None:
    for collective in COLLECTIVES:
        for nbytes in (8, 1 << 14, 1 << 20, 1 << 28):
            chosen = choose(collective, ranks, nbytes).algorithm
            needed = slots_needed_by(chosen, collective, ranks, 0 if COLLECTIVES[collective].rooted else -1)
            assert needed <= shm.staging(ranks)[0], (collective, nbytes, chosen)


def test_staging_stays_small() -> None:
    assert shm.staging(2, 100)[0] == 100
    with pytest.raises(ValueError, match="at most 4096"):
        shm.staging(2, 5000)
    for ranks in (1, 2, 8, 64, 128):
        slots, slot_bytes = shm.staging(ranks)
        assert slots * slot_bytes <= max(shm.STAGING_BYTES, slots * 4096)
        assert slot_bytes % 4096 == 0


@pytest.mark.parametrize(("latency_s", "mib"), [(0.0, 1), (20e-6, 1), (300e-6, 2), (1e-3, 8), (0.1, 16)])
def test_staging_holds_what_moves_in_a_latency(latency_s: float, mib: int) -> None:
    slots, slot_bytes = shm.staging(2, latency_s=latency_s)
    assert slots * slot_bytes == mib << 20


@pytest.mark.parametrize(("ranks", "kib"), [(8, 128), (32, 32), (64, 32), (512, 32), (1024, 16)])
def test_slots_of_many_ranks_over_hosts_hold_more_than_a_page(ranks: int, kib: int) -> None:
    assert shm.staging(ranks, latency_s=30e-6) == (ranks, kib << 10)


def test_encoded_programs_are_plain_tables() -> None:
    instructions, operands = built("ring", "all_reduce", 3, -1, 1).program.encode()
    assert instructions.dtype == operands.dtype == np.int32
