"""Messages whose bytes lie in a region: peers read them there, or copy them for a rank that waits to overwrite them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ringtree import _native
from ringtree.ir.program import Program, Space
from tests.runtime.engines import native_world as nw
from tests.waiting import Event


@pytest.mark.parametrize("root", [0, 1])
def test_a_send_from_a_region_ends_when_it_has_been_read(root: int) -> None:
    sent = Event()

    def rank_of(group: _native.Group, rank: int) -> bool:
        address = group.add_region(shared, 2 * 16384, rank * 16384)
        x = np.frombuffer((nw.c_char * 16384).from_address(address), np.float32)
        plan = nw.prepare(group, nw.broadcast(rank, 2, root), len(x), window=1024)
        time.sleep(0.2 * (rank != root))
        early = rank != root and sent.is_set()
        nw.run(group, plan, x, x)
        if rank == root:
            sent.set()
        return early

    shared = os.memfd_create("region")
    os.ftruncate(shared, 2 * 16384)
    assert nw.values(nw.world(2, rank_of)) == [False, False]
    os.close(shared)


def test_copies_of_messages_in_a_region_are_given_back() -> None:
    """In each turn a rank copies what the other would overwrite, and then reads messages that nobody copies."""
    nbytes, turns = 1 << 18, 200

    def rank_of(group: _native.Group, rank: int) -> int:
        address = group.add_region(shared, 2 * nbytes, rank * nbytes)
        x = np.frombuffer((nw.c_char * nbytes).from_address(address), np.float32)
        steps = nw.send(0, nw.at(Space.INPUT, 0), 1 - rank) + nw.receive(nw.at(Space.OUTPUT, 0), 1 - rank)
        swap = nw.prepare(group, Program("swap", "other", rank, 2, 1, (tuple(steps),)), len(x), redop=None)
        flat = [nw.prepare(group, nw.broadcast(rank, 2, root), len(x)) for root in (0, 1)]
        resident = []
        for turn in range(turns):
            for plan in (swap, *flat):
                nw.run(group, plan, x, x)
            if turn in (turns // 10, turns - 1):
                resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"))
        return resident[1] - resident[0]

    shared = os.memfd_create("region")
    os.ftruncate(shared, 2 * nbytes)
    grown = sum(nw.values(nw.world(2, rank_of, slot_bytes=nbytes)))
    assert grown < turns * nbytes // 4, grown
    os.close(shared)


def test_what_lies_in_a_region() -> None:
    def rank_of(group: _native.Group, rank: int) -> list[bool]:
        before = group.in_region(1 << 40, 8)
        begin = group.add_region(shared, 8192, 100) - 100
        _, share = group.add_window(window, 4096)
        others = begin - 1, begin + 1, share + 8192 - rank * 4096
        return [
            before,
            *(group.in_region(begin, nbytes) for nbytes in (8192, 8193)),
            *(group.in_region(share - rank * 4096, nbytes) for nbytes in (8192, 8193)),
            *(group.in_region(address, 8192) for address in others),
        ]

    shared, window = os.memfd_create("region"), os.memfd_create("window")
    os.ftruncate(shared, 8192)
    os.ftruncate(window, 8192)
    assert nw.values(nw.world(2, rank_of)) == [[False, True, False, True, False, False, False, False]] * 2
    os.close(shared)
    os.close(window)


def test_threads_that_map_memory_at_once_get_a_region_each() -> None:
    threads, each = 8, 250

    def rank_of(group: _native.Group, rank: int) -> bool:
        begun, begins = threading.Barrier(threads), list[int]()

        def map_some() -> None:
            begun.wait()
            for _ in range(each):
                begins.append(group.add_region(shared, 8192, 0))

        work = [threading.Thread(target=map_some) for _ in range(threads)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        return len(set(begins)) == threads * each and all(group.in_region(begin, 8192) for begin in begins)

    shared = os.memfd_create("region")
    os.ftruncate(shared, 8192)
    assert nw.values(nw.world(1, rank_of)) == [True]
    os.close(shared)
