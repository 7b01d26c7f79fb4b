"""Small calls on devices, whose messages travel in flagged words, by the engine that stands in a device's place."""

from __future__ import annotations

import time
from ctypes import c_uint32
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.errors import Mismatch, Poisoned
from ringtree.ir.plain_messages import PlainMessages
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.device.flagging import Shares, fits, shares
from ringtree.runtime.engines.device.lanes import COUNTERS_BYTES, CREDIT_BYTES
from ringtree.runtime.launch.spawn import spawn
from tests.waiting import until

WORDS = 8
"""Of a block's counters of a peer."""
SENT, TAKEN, GIVEN, CREDITED, RENEWED = 0, 1, 2, 4, 5


def last_plan(comm: Communicator) -> Any:
    endpoint: Any = comm._endpoint
    return list(endpoint._plans.values())[-1]


@pytest.mark.parametrize(("count", "flagged"), [(1, True), (1000, True), (4096, True), (4097, False)])
def test_small_calls_are_flagged(count: int, flagged: bool) -> None:
    def act(comm: Communicator) -> bool:
        found = comm.all_reduce(np.arange(count, dtype=np.float32) + comm.rank)
        assert np.array_equal(found, np.arange(count, dtype=np.float32) * 2 + 1)
        return bool(last_plan(comm).flagged)

    assert spawn(act, 2, engine="emulated") == [flagged] * 2


def test_a_call_with_more_messages_than_a_lane_holds_is_not_flagged() -> None:
    def act(comm: Communicator) -> tuple[bool, bool]:
        x = np.ones(100)
        comm.all_reduce(x, algorithm="ring")
        ring = last_plan(comm).flagged
        comm.all_reduce(x, algorithm="two_shot")
        return ring, last_plan(comm).flagged

    assert spawn(act, 6, engine="emulated") == [(False, True)] * 6


def test_a_call_with_an_empty_message_is_not_flagged() -> None:
    """Who waits for nothing would not find that a peer makes another call."""

    def act(comm: Communicator) -> str:
        try:
            if comm.rank:
                comm.all_gather_v(np.ones(5), [0, 5])
            else:
                comm.broadcast(np.ones(5), 0)
            comm.barrier()
        except (Mismatch, Poisoned) as error:
            return str(error)
        return "no error"

    for text in spawn(act, 2, engine="emulated", timeout_s=5):
        assert "all_gather(float64" in text and ("broadcast(float64" in text or "barrier(" in text)


def test_calls_of_several_sizes_share_no_part_of_a_slot() -> None:
    """Blocks have the same part of a slot in each call: what one has staged, no other overwrites until it is read."""

    def act(comm: Communicator) -> list[int]:
        sizes = [3500, 5000, 2100, 9000, 2200]
        if comm.rank:
            time.sleep(0.3)  # the root goes ahead
        given = [np.arange(n, dtype=np.float64) + n for n in sizes]
        found = [comm.broadcast(x if not comm.rank else np.zeros(len(x)), 0) for x in given]
        return [n for n, x, y in zip(sizes, given, found, strict=True) if not np.array_equal(x, y)]

    assert spawn(act, 2, engine="emulated", timeout_s=10) == [[], []]


def counters(comm: Communicator, block: int, peer: int) -> Any:
    """A block's counters of the lanes to and from a peer, in place."""
    endpoint: Any = comm._endpoint
    at = endpoint._counters_at + (block * comm.size + peer) * COUNTERS_BYTES
    return (c_uint32 * WORDS).from_address(at)


def come_together(comm: Communicator, folder: Path, name: str) -> None:
    """Waits for all ranks without a message."""
    (folder / f"{name} {comm.rank}").touch()
    until(lambda: all((folder / f"{name} {rank}").exists() for rank in range(comm.size)))


def count_from(comm: Communicator, folder: Path, number: int, renewed: int) -> None:
    """Lets the messages of the first block's lanes have been `number`, on all ranks, which come together before and
    after."""
    come_together(comm, folder, "before")
    endpoint: Any = comm._endpoint
    for peer in range(comm.size):
        found = counters(comm, 0, peer)
        for word in (SENT, TAKEN, GIVEN, CREDITED):
            found[word] = number
        found[RENEWED] = renewed
        credit = endpoint._lanes.credits + peer * endpoint._lanes.blocks * CREDIT_BYTES
        c_uint32.from_address(endpoint._regions[0][comm.rank] + credit).value = number
    come_together(comm, folder, "after")


def test_numbers_of_messages_wrap(tmp_path: Path) -> None:
    def act(comm: Communicator) -> list[int]:
        count_from(comm, tmp_path, (1 << 32) - 5, (1 << 32) - 5 - (1 << 30))
        wrong = []
        for turn in range(20):
            count = (1000, 3, 20_000, 2500)[turn % 4]  # the third is not flagged
            found = comm.all_reduce(np.arange(count, dtype=np.float32) * turn + comm.rank)
            wrong += [turn] * (not np.array_equal(found, np.arange(count, dtype=np.float32) * turn * 2 + 1))
        return wrong

    assert spawn(act, 2, engine="emulated", timeout_s=20) == [[], []]


def test_a_word_of_a_message_of_the_same_number_long_ago_is_not_taken(tmp_path: Path) -> None:
    """2**32 messages later a message has the mark of an old one; its words have lost that mark by then."""

    def act(comm: Communicator) -> bool:
        comm.all_reduce(np.zeros(1000, np.float32))
        number = int(counters(comm, 0, 1 - comm.rank)[SENT])
        count_from(comm, tmp_path, (number - 2) & 0xFFFFFFFF, (number - (1 << 31)) & 0xFFFFFFFF)
        comm.all_reduce(np.zeros(3, np.float32))
        found = comm.all_reduce(np.full(1000, 7 + comm.rank, np.float32))
        return bool((found == 15).all())

    assert spawn(act, 2, engine="emulated", timeout_s=20) == [True, True]


def test_a_slot_of_a_message_of_long_ago_is_free(tmp_path: Path) -> None:
    """Numbers of messages are of 32 bits: one that is half of all old would be taken for one to come."""

    def act(comm: Communicator) -> list[int]:
        x, y = (comm.empty(40_000, np.float32) for _ in range(2))
        wrong = []
        for symmetric, number in ((False, 0), (True, 1 << 30), (True, (1 << 31) + 10), (False, 0)):
            if number:
                count_from(comm, tmp_path / str(number), number, number)
            given, out = (x, y) if symmetric else (np.empty_like(x), np.empty_like(y))
            given[:] = np.arange(40_000) + comm.rank
            comm.all_reduce(given, out=out)
            wrong += [number] * (not np.array_equal(out, np.arange(40_000) * 2 + 1))
        return wrong

    for number in (1 << 30, (1 << 31) + 10):
        (tmp_path / str(number)).mkdir()
    assert spawn(act, 2, engine="emulated", timeout_s=5) == [[], []]


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=6), st.integers(1, 9))
def test_blocks_share_each_chunk_without_gap_or_overlap(sizes: list[int], blocks: int) -> None:
    found = shares(np.array(sizes, np.int64), blocks)
    assert (found.begin[0] == 0).all() and found.end[-1].tolist() == sizes
    assert (found.begin[1:] == found.end[:-1]).all() and (found.begin <= found.end).all()
    assert (found.end - found.begin).max() <= found.part


ROOM: Shares = shares(np.array([1000, 1000]), 2)


@pytest.mark.parametrize(
    ("plain", "item", "room", "fitting"),
    [
        (PlainMessages(8, 1, 100), 4, 2048, True),
        (PlainMessages(9, 1, 100), 4, 2048, False),
        (PlainMessages(8, 2, 100), 4, 2048, False),
        (PlainMessages(8, 2, 100), 4, 4096, True),
        (PlainMessages(8, 1, 383), 4, 2048, False),
        (PlainMessages(8, 1, 100), 8, 2048, False),
        (None, 4, 2048, False),
    ],
)
def test_messages_fit_their_places(plain: PlainMessages | None, item: int, room: int, fitting: bool) -> None:
    assert fits(plain, ROOM, item, room) is fitting
