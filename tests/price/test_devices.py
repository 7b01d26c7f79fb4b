"""Schedules priced on devices: by hand."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build
from ringtree.price import Devices, seconds

SHARED = Devices((0, 0), latency_s=3e-6, launch_s=4e-6, memory_Bps=4e12, link_Bps=3e11)
APART = Devices((0, 1, 2, 3), latency_s=3e-6, launch_s=4e-6, memory_Bps=4e12, link_Bps=1e11)


def test_a_one_shot_reads_both_inputs_on_each_rank() -> None:
    nbytes = 1 << 28
    moved = 2 * (2 * nbytes + nbytes)  # two ranks read both and write one
    assert seconds(build("one_shot", "all_reduce", 2), SHARED, nbytes) == pytest.approx(7e-6 + moved / 4e12)


def test_links_bound_ranks_on_devices_of_their_own() -> None:
    nbytes = 1 << 28
    time_s = seconds(build("two_shot", "all_reduce", 4), APART, nbytes)
    assert time_s == pytest.approx(4e-6 + 2 * 3e-6 + 2 * nbytes * 3 / 4 / 1e11)


def test_no_bytes_cost_the_rounds() -> None:
    assert seconds(build("one_shot", "all_reduce", 2), SHARED, 0) == pytest.approx(7e-6)


def test_another_number_of_ranks_is_refused() -> None:
    with pytest.raises(ValueError, match="is for 3 ranks; there are 2"):
        seconds(build("ring", "all_reduce", 3), SHARED, 8)
