"""How the native engine fails: wrong calls, dead ranks, ranks that leave, time that runs out."""

from __future__ import annotations

import itertools
import os
import re
import socket
import time

import numpy as np
import pytest

from ringtree import _native
from tests.runtime.engines import native_world as nw
from tests.runtime.engines.native_world import broadcast, one_shot, prepare, run, values, world
from tests.waiting import Event, Naps


def test_a_mismatch_names_both_sides_on_every_rank() -> None:
    def rank_of(group: _native.Group, rank: int) -> None:
        x = np.arange(8, dtype=np.float32)
        plan = prepare(group, one_shot(rank, 3), 8)
        for _ in range(6):
            run(group, plan, x, x)
        x[:] = 1
        try:
            if rank == 1:
                run(group, prepare(group, broadcast(rank, 3, 1), 5, redop=None), x, x)
            run(group, plan, x, x)
        except _native.Mismatch:
            assert x.tolist() == [1] * 8, "a user's buffer was written"
            raise

    ends = world(3, rank_of)
    assert [end.error for end in ends] == [_native.Mismatch] * 3
    one, other = "broadcast(float32, count 5, root 1) as call 7", "all_reduce(float32, sum, count 8) as call 7"
    for end in ends:
        assert one in end.text and other in end.text, end.text


@pytest.mark.parametrize("last", [False, True])
def test_two_roots_that_only_send_raise_at_the_next_call_or_the_end(last: bool) -> None:
    def rank_of(group: _native.Group, rank: int) -> str:
        x = np.ones(1, np.float32)
        run(group, prepare(group, broadcast(rank, 2, rank), 1, redop=None), x, x)
        time.sleep(0.1 * rank)
        if not last:
            run(group, prepare(group, one_shot(rank, 2), 1), x, x)
        return "nothing"

    ends = world(2, rank_of)
    mismatches = [end for end in ends if end.error is _native.Mismatch]
    assert len(mismatches) == 2, ends
    for end in mismatches:
        assert "broadcast(float32, count 1, root 0) as call 1" in end.text
        assert "broadcast(float32, count 1, root 1) as call 1" in end.text


def test_a_rank_that_waits_for_another_root_raises() -> None:
    """Rank 1 waits for rank 2, which did its part of another call and makes no more."""
    ended = Event()

    def rank_of(group: _native.Group, rank: int) -> None:
        x = np.ones(1, np.float32)
        try:
            run(group, prepare(group, broadcast(rank, 3, 2 if rank == 1 else 0), 1, redop=None), x, x)
        finally:
            if rank == 1:
                ended.set()
        ended.wait()  # nobody leaves before

    ends = world(3, rank_of)
    assert ends[1].error is _native.Mismatch
    assert "root 2" in ends[1].text and "root 0" in ends[1].text


def test_another_schedule_is_a_mismatch_too() -> None:
    def rank_of(group: _native.Group, rank: int) -> None:
        x = np.ones(1, np.float32)
        run(group, prepare(group, one_shot(rank, 2), 1, digest=rank), x, x)

    ends = world(2, rank_of)
    assert [end.error for end in ends] == [_native.Mismatch] * 2
    assert "with another schedule" in ends[0].text and "or another version of ringtree" in ends[0].text


@pytest.mark.parametrize("calls", [1, 1000])
def test_a_dead_rank_is_named_to_every_survivor_within_a_second(calls: int) -> None:
    dies = Event()

    def rank_of(group: _native.Group, rank: int) -> tuple[str, int, int]:
        plan = prepare(group, one_shot(rank, 4), 64)
        x = np.ones(64, np.float32)
        with Naps(dies.is_set) as naps, pytest.raises(_native.PeerDied) as caught:
            for call in itertools.count(1):
                run(group, plan, x, x)
                if rank == 2 and call == calls:
                    dies.set()
                    nw.die()
        return *caught.value.args, naps.count

    ends = world(4, rank_of)
    assert ends[2].error is SystemExit
    for text, died, naps in values([ends[rank] for rank in (0, 1, 3)]):
        assert died == 2 and naps < Naps.A_SECOND
        assert "rank 2 died (process " in text and "in all_reduce, call " in text


def test_the_watch_holds_though_python_closed_its_descriptor() -> None:
    """Closing any descriptor of a file drops the process's locks on it; the engine must not take that for death."""

    def rank_of(group: _native.Group, rank: int) -> float:
        os.close(os.dup(_descriptor()))
        plan = prepare(group, one_shot(rank, 2), 1)
        x = np.ones(1, np.float32)
        time.sleep(0.5 * rank)
        run(group, plan, x, x)
        return float(x[0])

    assert values(world(2, rank_of)) == [2, 2]


def _descriptor() -> int:
    """Some descriptor of the segment."""
    return next(int(d) for d in os.listdir("/proc/self/fd") if "memfd:test" in os.readlink(f"/proc/self/fd/{d}"))


def test_a_rank_that_left_is_named() -> None:
    def rank_of(group: _native.Group, rank: int) -> float:
        plan = prepare(group, one_shot(rank, 2), 1)
        x = np.ones(1, np.float32)
        run(group, plan, x, x)
        if rank == 0:
            run(group, plan, x, x)
        return float(x[0])

    ends = world(2, rank_of)
    assert ends[1].error is None
    assert ends[0].error is _native.PeerDied and ends[0].args[1] == 1
    assert "rank 1 left the group while rank 0 waited for it in all_reduce, call 2" in ends[0].text


def test_messages_sent_before_leaving_arrive() -> None:
    def rank_of(group: _native.Group, rank: int) -> list[float]:
        x = np.full(300, 3 - rank, np.float32)
        plan = prepare(group, broadcast(rank, 2, 0), 300, redop=None)
        time.sleep(0.2 * rank)
        return run(group, plan, x, x)[:1].tolist()

    assert values(world(2, rank_of)) == [[3], [3]]


def test_time_runs_out_for_all() -> None:
    ran_out = Event()

    def rank_of(group: _native.Group, rank: int) -> None:
        plan = prepare(group, one_shot(rank, 3), 1)
        x = np.ones(1, np.float32)
        run(group, plan, x, x)  # all are there
        group.set_timeout(0.3)
        if rank == 2:
            ran_out.wait()
        try:
            run(group, plan, x, x)
        except _native.TimedOut:
            ran_out.set()
            with pytest.raises(_native.Poisoned, match="failed before"):
                run(group, plan, x, x)
            raise

    ends = world(3, rank_of)
    assert [end.error for end in ends] == [_native.TimedOut] * 3
    for end in ends:  # on a busy machine, 0 and 1 may miss each other
        assert re.search(r"rank [01] waited 0\.3 s for rank [012] in all_reduce, call 2", end.text), end.text


def test_errors_of_asynchronous_calls_are_raised_by_wait() -> None:
    def rank_of(group: _native.Group, rank: int) -> None:
        x = np.ones(1, np.float32)
        ticket = group.start(prepare(group, one_shot(rank, 2), 1, digest=rank), x.ctypes.data, x.ctypes.data)
        for _ in range(2):
            with pytest.raises(_native.Mismatch):
                group.wait(ticket, 5)
        assert group.done(ticket)

    values(world(2, rank_of))


def test_anyone_can_poison_the_group() -> None:
    def rank_of(group: _native.Group, rank: int) -> None:
        plan = prepare(group, one_shot(rank, 2), 1)
        x = np.ones(1, np.float32)
        if rank:
            time.sleep(0.1)
            group.poison("rank 1 has had enough")
        run(group, plan, x, x)

    ends = world(2, rank_of)
    assert [end.error for end in ends] == [_native.Poisoned] * 2
    assert all("rank 1 has had enough" in end.text for end in ends)


def test_a_reason_that_is_cut_within_a_character_is_read_all_the_same() -> None:
    with nw.segment(1) as fd:
        group = nw.endpoint(fd, 0, 1)
        group.poison("x" + 3000 * "é")
        with pytest.raises(_native.Poisoned, match="xééé"):
            prepare(group, one_shot(0, 1), 1)
        group.close()


def test_a_forked_child_has_no_endpoint() -> None:
    def rank_of(group: _native.Group, rank: int) -> tuple[str, float]:
        plan = prepare(group, one_shot(rank, 2), 1)
        x = np.ones(1, np.float32)
        group.wait(group.start(plan, x.ctypes.data, x.ctypes.data), 5)
        mine, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                run(group, plan, x, x)
            except _native.Poisoned as error:
                os.write(theirs, str(error).encode())
            group.close()
            os._exit(0)
        os.waitpid(pid, 0)
        run(group, plan, x, x)  # the parent still has it
        return os.read(mine, 1000).decode(), float(x[0])

    for rank, (message, value) in enumerate(values(world(2, rank_of))):
        assert f"forked from rank {rank}" in message and value == 4


def test_a_closed_group_raises() -> None:
    with nw.segment(1) as fd:
        group = nw.endpoint(fd, 0, 1)
        plan = prepare(group, one_shot(0, 1), 1)
        group.close()
        group.close()
        x = np.ones(1, np.float32)
        with pytest.raises(_native.Poisoned, match="closed"):
            run(group, plan, x, x)
        assert not group.call(0, x, x, "sum", -1)


def test_a_descriptor_of_something_else_is_refused(tmp_path: object) -> None:
    with nw.segment(2) as fd:
        os.pwrite(fd, b"\1" * 64, 0)
        with pytest.raises(ValueError, match=r"disagree|not a ringtree segment"):
            nw.endpoint(fd, 0, 2)
    with nw.segment(2) as fd:
        first = nw.endpoint(fd, 0, 2)
        with pytest.raises(ValueError, match="disagree"):
            nw.endpoint(fd, 1, 2, slots=9)
        first.close()
    with pytest.raises(OSError, match="descriptor"):
        nw.endpoint(-1, 0, 2)
    with pytest.raises(ValueError, match="rank 2 of 2"), nw.segment(2) as fd:
        nw.endpoint(fd, 2, 2)


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_group_is_made_of_members(rank: int) -> None:
    with nw.segment(2) as fd:
        group = nw.endpoint(fd, 0, 2)
        with pytest.raises(ValueError, match=f"^rank {rank} of 2$"):
            group.inherited([0, rank])
        group.close()


def test_a_sub_group_without_room_raises() -> None:
    """Memory that cannot be reserved when it is first used is an error on every rank, and no SIGBUS."""
    sizes = 2, nw.SLOTS, nw.SLOT_BYTES
    fd = os.memfd_create("shared by both")
    os.ftruncate(fd, _native.segment_bytes(*sizes))

    def rank_of(group: _native.Group, rank: int) -> None:
        sub = nw.endpoint(fd, rank, 2, inherited=group.inherited([0, 1]))
        x = np.ones(500, np.float32)
        run(sub, prepare(sub, one_shot(rank, 2), 500), x, x)

    os.ftruncate(fd, _native.reserved_bytes(*sizes, lazily=True))
    ends = world(2, rank_of)
    os.close(fd)
    assert any(end.error is OSError for end in ends), ends
    for end in ends:
        assert end.error in (OSError, _native.Poisoned)
        assert "cannot reserve" in end.text
        assert "bytes of shared memory" in end.text


def test_a_network_of_which_no_group_comes_listens_no_more() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    proofs = (bytes(32),) * 4
    peers = [("", 0, *proofs), ("127.0.0.1", 1, *proofs)]
    network = _native.tcp([0, 1], listener=listener.detach(), group=1, peers=peers, connections=1, measures=False)
    socket.create_connection(address).close()
    del network
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
