"""Messages that their receivers read in the senders' memory: by the native engine alone, and in calls."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringtree import Pool, _native
from ringtree.bench import tuned_text
from ringtree.ir.program import Instruction, Kind, Program, Space
from ringtree.price.memory import BUILT_IN
from ringtree.price.memory.parameters import FASTEST_BPS
from ringtree.runtime import tuned
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools
from tests.runtime.engines.native_world import (
    Ended,
    at,
    broadcast,
    die,
    one_shot,
    prepare,
    receive,
    run,
    send,
    two_shot,
    values,
    world,
)  # fmt: skip
from tests.waiting import Event

LEAST = 4096
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 4, 22, 38, 2
LONG = 300_000  # elements: 1.2 MB, of which a slot of 4 KiB holds little
READS = pytest.mark.skipif(not _native.reads_Bps(), reason="the kernel lets no process read another's memory here")


def content(rank: int, count: int = LONG) -> np.ndarray[Any, Any]:
    return ((np.arange(count) * 3 + 17 * rank) % 251).astype(np.float32)


@READS
@pytest.mark.parametrize("program", [one_shot, two_shot], ids=["one_shot", "two_shot"])
@pytest.mark.parametrize("in_place", [False, True])
def test_messages_longer_than_a_slot_arrive(program: Any, in_place: bool) -> None:
    """In the sums of four ranks; one_shot in place overwrites what its peers may still read."""

    def rank_of(group: _native.Group, rank: int) -> bool:
        plan = prepare(group, program(rank, 4), LONG, single_copy=True)
        x = content(rank)
        out = x if in_place else np.empty_like(x)
        run(group, plan, x, out)
        return bool(np.array_equal(out, sum(content(peer) for peer in range(4))))

    assert values(world(4, rank_of, single_copy_bytes=LEAST)) == [True] * 4


@READS
def test_memory_that_nobody_may_read_is_staged() -> None:
    """Secret memory, as a device's that is mapped, is this process's alone."""
    memfd_secret = 447
    secret = ctypes.CDLL(None).syscall(memfd_secret, 0)
    if secret < 0:
        pytest.skip("this kernel has no secret memory")
    os.close(secret)

    def rank_of(group: _native.Group, rank: int) -> bool:
        plan = prepare(group, two_shot(rank, 2), LONG, single_copy=True)
        file = ctypes.CDLL(None).syscall(memfd_secret, 0)
        os.ftruncate(file, LONG * 4)
        with mmap.mmap(file, LONG * 4) as memory:
            x = np.frombuffer(memory, np.float32)
            x[:] = content(rank)
            out = np.empty_like(x)
            run(group, plan, x, out)
            del x
        os.close(file)
        return bool(np.array_equal(out, content(0) + content(1)))

    assert values(world(2, rank_of, single_copy_bytes=LEAST)) == [True] * 2


def _broadcasts(group: _native.Group, rank: int) -> bool:
    """From each of three ranks, of more bytes than a slot has."""
    x, out = content(rank), np.zeros(LONG, np.float32)
    for root in range(3):
        run(group, prepare(group, broadcast(rank, 3, root), LONG, redop=None, single_copy=True), x, out)
        if not np.array_equal(out, content(root)):
            return False
    return True


@pytest.mark.parametrize("reads", [[0, 0, 0], [LEAST, 0, LEAST], [0, LEAST, LEAST]])
def test_ranks_that_read_nothing_are_sent_staged_messages(reads: list[int]) -> None:
    assert values(world(3, _broadcasts, single_copy_bytes=reads)) == [True] * 3


def test_where_the_kernel_refuses_messages_are_staged() -> None:
    """A process that is not dumpable is read by nobody but root."""

    def rank_of(group: _native.Group, rank: int) -> bool:
        if os.getuid() == 0:
            os.setuid(65534)
        assert ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
        return _broadcasts(group, rank)

    assert values(world(3, rank_of, single_copy_bytes=LEAST)) == [True] * 3


def _sends_and_vanishes(vanish: Any) -> list[Ended]:
    """Rank 0 broadcasts a mapping of its own, and does `vanish(mapping)` before rank 1 reads it."""
    gone = Event()

    def rank_of(group: _native.Group, rank: int) -> None:
        x = np.empty(LONG, np.float32)
        small = prepare(group, broadcast(rank, 2, 0), LONG, redop=None, single_copy=True)
        run(group, small, x, x)  # both have offered their memory and answered
        if rank:
            gone.wait()
            run(group, small, x, x)
            return
        mapping = mmap.mmap(-1, x.nbytes)
        at = np.frombuffer(mapping, np.float32).ctypes.data

        def leave() -> None:
            time.sleep(0.1)  # the message is there, and rank 0 waits for its completion
            vanish(at, x.nbytes, gone)

        threading.Thread(target=leave, daemon=True).start()
        group.run(small, at, at)

    return world(2, rank_of, single_copy_bytes=LEAST, timeout_s=20.0)


def _unmap(at: int, nbytes: int, gone: Event) -> None:
    assert ctypes.CDLL(None).munmap(ctypes.c_void_p(at), ctypes.c_size_t(nbytes)) == 0
    gone.set()


def _die(at: int, nbytes: int, gone: Event) -> None:
    """A child says so once this process has ended: before that, its memory can still be read."""
    mine = os.getpid()
    if os.fork() == 0:
        while os.getppid() == mine:
            time.sleep(0.001)
        gone.set()
        os._exit(0)
    die()


@READS
def test_an_array_that_is_unmapped_meanwhile_is_an_error_on_both_ranks() -> None:
    began = time.monotonic()
    ends = _sends_and_vanishes(_unmap)
    assert [end.error for end in ends] == [_native.Mismatch] * 2, ends
    for end in ends:
        assert "rank 1 could not read" in end.text and "of rank 0 in broadcast, call 2" in end.text, end.text
        assert "an array must stay where it is during a call" in end.text
    assert time.monotonic() - began < 10


@READS
def test_a_sender_that_dies_before_it_is_read_is_named() -> None:
    ends = _sends_and_vanishes(_die)
    assert ends[1].error is _native.PeerDied and "rank 0 died" in ends[1].text, ends[1]


KILLS, REFUSES = 0x80000000, 0x00050001  # the process, and by EPERM: what a filter of system calls answers (seccomp.h)


def _filter(system_call: int, answer: int) -> None:
    """Has the kernel answer this process's calls of that number so, from now on."""
    load, jump, result, allow = 0x20, 0x15, 0x06, 0x7FFF0000
    steps = [(load, 0, 0, 0), (jump, 0, 1, system_call), (result, 0, 0, answer), (result, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None).prctl
    assert prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) == 0


def _filtered_broadcasts(answer: int, calls: int) -> list[Ended]:
    """From rank 0, whose writes into another process's memory the kernel answers so."""

    def rank_of(group: _native.Group, rank: int) -> bool:
        if rank == 0:
            _filter({"x86_64": 311, "aarch64": 271}[platform.machine()], answer)
        x, out = content(rank), np.zeros(LONG, np.float32)
        plan = prepare(group, broadcast(rank, 2, 0), LONG, redop=None, single_copy=True)
        for _ in range(calls):
            run(group, plan, x, out)
        return bool(np.array_equal(out, content(0)))

    return world(2, rank_of, single_copy_bytes=LEAST)


@READS
def test_a_sender_that_waits_writes_a_part_of_its_message() -> None:
    """Shown by what becomes of it where that kills; on a busy machine it may come late for many messages."""
    ends = _filtered_broadcasts(KILLS, 10_000)
    assert ends[1].error is _native.PeerDied and "rank 0 died" in ends[1].text, ends[1]


def _copies_then_receives(rank: int, targets: Sequence[int]) -> Program:
    """Rank 1 copies its chunk 0 to chunk 1, and receives into those chunks; the messages are there when it begins."""
    steps = [step for k in range(len(targets)) for step in send(k, at(Space.INPUT, k), 1)]
    if rank:
        copy = Instruction(Kind.COPY, (at(Space.OUTPUT, 1),), (at(Space.OUTPUT, 0),))
        steps = [copy, *(step for k, target in enumerate(targets) for step in receive(at(Space.OUTPUT, target, k), 0))]
    return Program("flat", "broadcast", rank, 2, 3, (tuple(steps),), root=0)


@READS
@pytest.mark.parametrize("targets", [(0,), (1,), (2,), (0, 2), (1, 2), (2, 0), (2, 1)])
def test_a_message_is_not_written_where_a_copy_before_it_reads_or_writes(targets: tuple[int, ...]) -> None:
    """A target is offered ahead only where it is free, and for its own message."""
    count = 1 << 20

    def rank_of(group: _native.Group, rank: int) -> list[bool]:
        plan = prepare(group, _copies_then_receives(rank, targets), 3 * count, redop=None, single_copy=True)
        right = []
        for turn in range(5):
            sent = [np.full(count, -10 * turn - k, np.float32) for k in range(3)]
            chunks = [np.full(count, 10 * turn + k, np.float32) for k in range(3)]
            x = np.concatenate(chunks if rank else sent)
            time.sleep(0.02 * rank)
            run(group, plan, x, x)
            chunks[1] = chunks[0]
            for k, target in enumerate(targets):
                chunks[target] = sent[k]
            right.append(bool(not rank or np.array_equal(x, np.concatenate(chunks))))
        return right

    assert values(world(2, rank_of, single_copy_bytes=LEAST)) == [[True] * 5] * 2


def _copies_then_receives_for_two(rank: int) -> Program:
    """As before, with one message that goes to chunk 0, which is not free before, and to chunk 2, which is."""
    program = _copies_then_receives(rank, (0,))
    if rank == 0:
        return program
    copy, wait, first, release = program.threads[0]
    second = first._replace(targets=(at(Space.OUTPUT, 2, 0),))
    return replace(program, threads=((copy, wait, first, second, release),))


@READS
def test_a_message_that_is_copied_twice_is_whole_in_both_places() -> None:
    count = 1 << 20

    def rank_of(group: _native.Group, rank: int) -> list[bool]:
        plan = prepare(group, _copies_then_receives_for_two(rank), 3 * count, redop=None, single_copy=True)
        x = np.empty(3 * count, np.float32)
        right = []
        for _ in range(30):
            x[:] = np.repeat(np.arange(3, dtype=np.float32) - 3 * (rank == 0), count)
            time.sleep(0.01 * rank)
            run(group, plan, x, x)
            right.append(bool(not rank or np.array_equal(x, np.repeat(np.array([-3, 0, -3], np.float32), count))))
        return right

    assert values(world(2, rank_of, single_copy_bytes=LEAST)) == [[True] * 30] * 2


@READS
def test_where_the_kernel_refuses_writes_alone_receivers_read_all() -> None:
    assert values(_filtered_broadcasts(REFUSES, 20)) == [True] * 2


def moved(comm: Communicator) -> list[str]:
    """Calls of each kind, in place where there is such a form; returns what is wrong."""
    n, me = comm.size, comm.rank
    mine, every = content(me), np.concatenate([content(rank) for rank in range(n)])
    whole = np.concatenate([content(10 * me + peer) for peer in range(n)])
    turned = np.concatenate([content(10 * peer + me) for peer in range(n)])
    own, sent, part = mine.copy(), whole.copy(), np.empty_like(mine)
    comm.broadcast(own, root=n - 1)
    comm.all_to_all(sent, out=sent)
    gathered = comm.gather(mine, root=1)
    right = {
        "all_gather": np.array_equal(np.ravel(comm.all_gather(mine)), every),
        "all_to_all": np.array_equal(np.ravel(comm.all_to_all(whole)), turned) and np.array_equal(sent, turned),
        "broadcast": np.array_equal(own, content(n - 1)),
        "gather": me != 1 or np.array_equal(np.ravel(gathered), every),
        "scatter": np.array_equal(comm.scatter(every if me == 0 else None, root=0, out=part), mine),
    }
    return [name for name, well in right.items() if not well]


def read_in_place(comm: Communicator) -> set[str]:
    """The collectives whose calls of LONG elements a rank are made by single copies."""
    counts = dict.fromkeys(("all_gather", "all_to_all", "gather", "scatter"), comm.size * LONG) | {"broadcast": LONG}
    return {name for name, count in counts.items() if comm.chosen(name, count).part.single_copy}


@pytest.fixture
def quick_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs of a machine whose kernel reads a peer's memory in no time, so that calls are made so on any machine."""
    quick = replace(BUILT_IN, attach_Bps=(FASTEST_BPS,) * len(BUILT_IN.attach_Bps))
    (tmp_path / "machine.json").write_text(tuned_text.text(quick, (2, 4), "2026-11-21"))
    monkeypatch.setenv(tuned.VARIABLE, str(tmp_path / "machine.json"))


@READS
@pytest.mark.parametrize(
    ("ranks", "least"), [(2, {"all_gather", "all_to_all", "scatter"}), (3, {"all_to_all", "scatter"}), (4, {"scatter"})]
)
def test_calls_are_made_so_where_that_is_less_work_and_are_right(
    ranks: int, least: set[str], quick_kernel: None
) -> None:
    with Pool(ranks) as pool:
        assert all(found >= least for found in pool.run(read_in_place))
        for _ in range(3):
            assert pool.run(moved) == [[]] * ranks


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_calls_are_right(pools: Pools, ranks: int) -> None:
    """However this machine's kernel has them made."""
    for wrong in pools("shm", ranks).run(moved):
        assert not wrong


@READS
def test_the_kernel_is_timed_once() -> None:
    assert 1e8 < _native.reads_Bps() == _native.reads_Bps() < 1e12


def test_the_first_long_call_may_come_late_on_one_rank(pools: Pools) -> None:
    """Rank 0 has to wait for an answer of a rank that is not in the call yet."""
    assert pools("shm", 2).run(_late) == [True, True]


def _late(comm: Communicator) -> bool:
    group = comm.group([0, 1])
    if group.rank:
        time.sleep(0.2)
    x = content(0) if group.rank == 0 else np.zeros(LONG, np.float32)
    group.broadcast(x, root=0)
    right = np.array_equal(x, content(0))
    group.close()
    return bool(right)
