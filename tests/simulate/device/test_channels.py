"""Channels: thread blocks side by side, each with its part of every chunk."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build
from ringtree.ir.lower import lower
from ringtree.simulate.device import DeviceConstants, play
from ringtree.simulate.device.channels import in_channels
from ringtree.topology import direct

RING = lower(build("ring", "all_reduce", 4))


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_channels_divide_the_time_until_links_are_full(channels: int) -> None:
    """A thread block copies 1 GB/s, a link carries 2.5 GB/s."""
    constants, place = DeviceConstants(0, 0, 1e9), direct(4, latency_s=0, bandwidth_Bps=2.5e9)
    alone_s = play(RING, place, 64_000_000, constants).time_s
    found = play(in_channels(RING, channels), place, 64_000_000, constants)
    assert found.link_nbytes.sum() == 6 * 64_000_000
    if channels == 2:
        assert found.time_s == pytest.approx(alone_s / 2, rel=0.01)
    if channels == 5:
        assert alone_s / 5 * 1.3 < found.time_s < alone_s / 2


def test_each_channel_is_a_thread_block_with_lanes_of_its_own() -> None:
    for program in in_channels(RING, 3):
        assert len(program.threads) == 3 and program.chunks == 3 * RING[0].chunks
        for channel, code in enumerate(program.threads):
            assert {i.channel for i in code if i.peer >= 0} == {channel}
