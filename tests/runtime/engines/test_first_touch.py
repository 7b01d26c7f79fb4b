"""Each rank's process makes the memory that it writes exist, so that it lies on the rank's own NUMA node."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from ringtree import _native, spawn
from ringtree.machines.detect.cpus import numa_nodes
from ringtree.machines.sysfs import Sysfs
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.engines.native_world import endpoint, segment

RANKS, SLOTS, SLOT_BYTES = 4, 8, 1 << 15
PART, LARGE = 4 * SLOTS * SLOT_BYTES, 2 << 20  # with the room that short messages are spread over
MOVE_PAGES = {"x86_64": 279, "aarch64": 239}
"""The number of the system call, which here only asks where pages are."""

pytestmark = pytest.mark.skipif(
    _native.reserved_bytes(2, 8, 4096, lazily=True) == _native.segment_bytes(2, 8, 4096),
    reason="this kernel (before Linux 5.14) reserves all memory of a group at once",
)


@pytest.fixture
def fd() -> Iterator[int]:
    with segment(RANKS, SLOTS, SLOT_BYTES) as memory:
        yield memory


def join(fd: int, rank: int, nodes: Sequence[int]) -> _native.Group:
    return endpoint(fd, rank, RANKS, slots=SLOTS, slot_bytes=SLOT_BYTES, nodes=nodes)


def slots_begin() -> int:
    return _native.reserved_bytes(RANKS, SLOTS, SLOT_BYTES, lazily=True)


def there(fd: int) -> list[tuple[int, int]]:
    """The ranges of a memory whose pages exist."""
    found, at, end = [], 0, os.fstat(fd).st_size
    while at < end:
        try:
            begin = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:  # no more
            break
        at = os.lseek(fd, begin, os.SEEK_HOLE)
        found.append((begin, at))
    return found


def slots_there(fd: int) -> list[tuple[int, int]]:
    """The ranges of slots whose pages exist. (Pages of the header that nobody has written yet are only reserved.)"""
    begin = slots_begin()
    return [(max(first, begin), end) for first, end in there(fd) if end > begin]


def test_a_rank_that_joins_reserves_the_header_and_its_own_slots(fd: int) -> None:
    begin = slots_begin()
    group = join(fd, 2, nodes=range(RANKS))
    assert slots_there(fd) == [(begin + 2 * PART, begin + 3 * PART)]
    assert os.fstat(fd).st_blocks * 512 == begin + PART
    others = [join(fd, rank, nodes=range(RANKS)) for rank in (0, 1, 3)]
    [(first, end)] = slots_there(fd)
    assert first == begin and end in (begin + RANKS * PART, 3 * LARGE), "no lane, which its first message makes exist"
    del group, others


def test_a_rank_alone_reserves_no_slots_which_nobody_would_read() -> None:
    with segment(1, SLOTS, SLOT_BYTES) as fd:
        group = endpoint(fd, 0, 1, slots=SLOTS, slot_bytes=SLOT_BYTES)
        header = _native.reserved_bytes(1, SLOTS, SLOT_BYTES, lazily=False)
        assert there(fd) == [(0, header)]
        assert header < SLOT_BYTES
        del group


@pytest.mark.parametrize(
    ("nodes", "large"),
    [((), True), ((5, 5, 5, 5), True), ((-1,) * 4, True), ((-1, 0, 0, -1), True), ((0, 1, 0, 1), False)],
)
def test_a_large_page_is_of_ranks_on_one_node(fd: int, nodes: tuple[int, ...], large: bool) -> None:
    """Ranks 0 and 1 are in the first large page. Its first rank fills it where it may be one page."""
    group = join(fd, 0, nodes)
    if large and slots_there(fd) == [(slots_begin(), slots_begin() + PART)]:
        pytest.skip("this kernel gives shared memory no large pages")
    assert slots_there(fd) == [(slots_begin(), LARGE if large else slots_begin() + PART)]
    del group


def test_only_the_large_page_between_two_nodes_is_left_out(fd: int) -> None:
    nodes = 0, 0, 1, 1
    begin = slots_begin()
    first = join(fd, 0, nodes)
    if slots_there(fd) == [(begin, begin + PART)]:
        pytest.skip("this kernel gives shared memory no large pages")
    assert slots_there(fd) == [(begin, LARGE)]
    last = join(fd, 3, nodes)  # the second page is ranks 1's, 2's and 3's, the third rank 3's alone
    assert slots_there(fd) == [(begin, LARGE), (begin + 3 * PART, 3 * LARGE)]
    del first, last


def test_a_rank_reserves_its_own_share_of_a_window(fd: int) -> None:
    share = 3 << 20
    window = os.memfd_create("window")
    os.ftruncate(window, share * RANKS)
    group = join(fd, 1, nodes=range(RANKS))
    group.add_window(window, share)
    assert there(window) == [(share, 2 * share)]
    os.close(window)
    del group


def test_a_window_exists_on_all_ranks_when_it_is_returned() -> None:
    """So that no access of a peer makes a page exist on the peer's node, or ends its process for want of memory."""

    def rank(comm: Communicator) -> int:
        begin = comm.empty(1 << 20, np.uint8).__array_interface__["data"][0] - (comm.rank << 20)
        pages = (ctypes.c_ubyte * (comm.size << 8))()
        assert not ctypes.CDLL(None).mincore(ctypes.c_void_p(begin), ctypes.c_size_t(comm.size << 20), pages)
        return sum(page & 1 for page in pages)

    for _ in range(5):
        assert spawn(rank, 3) == [3 << 8] * 3


def node_of(memory: mmap.mmap, offset: int) -> int:
    """The NUMA node of a page; below 0 where the kernel gives an error instead."""
    libc, number = ctypes.CDLL(None, use_errno=True), MOVE_PAGES[os.uname().machine]
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + offset
    page, status = (ctypes.c_void_p * 1)(address), (ctypes.c_int * 1)()
    memory[offset]  # maps it here
    if libc.syscall(number, 0, ctypes.c_ulong(1), page, None, status, 0):
        raise OSError(ctypes.get_errno(), "move_pages")
    return status[0]


def test_slots_and_shares_lie_on_their_ranks_nodes(fd: int) -> None:
    usable = os.sched_getaffinity(0)
    nodes = [(n.number, usable & set(n.cpus)) for n in numa_nodes(Sysfs(Path("/"))) if usable & set(n.cpus)]
    if len(nodes) < 2:
        pytest.skip("this machine has one NUMA node, or this process may use only one")
    of_rank = [nodes[rank % 2] for rank in range(RANKS)]
    share = 3 << 20
    window = os.memfd_create("window")
    os.ftruncate(window, share * RANKS)
    for rank, (_, cpus) in enumerate(of_rank):
        if not (pid := os.fork()):
            os.sched_setaffinity(0, cpus)
            join(fd, rank, [node for node, _ in of_rank]).add_window(window, share)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    slots, shares = mmap.mmap(fd, os.fstat(fd).st_size), mmap.mmap(window, share * RANKS)
    for rank, (node, _) in enumerate(of_rank):
        assert {node_of(slots, slots_begin() + rank * PART + at) for at in range(0, PART, 4096)} == {node}
        assert {node_of(shares, rank * share + at) for at in range(0, share, 4096)} == {node}
