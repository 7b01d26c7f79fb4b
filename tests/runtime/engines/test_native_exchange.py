"""Point-to-point messages of the native engine."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ringtree import _native
from ringtree.runtime.engines.tags import COPY, FREE
from tests.runtime.engines import native_world as nw
from tests.runtime.engines.native_world import values, world
from tests.waiting import Event

Bytes = NDArray[np.uint8]
Operation = tuple[bool, int, int, int, int, int, bool]


def post(is_send: bool, peer: int, x: Bytes, tag: int = 0, dtype: int = 5, at_most: bool = False) -> Operation:
    return (is_send, peer, tag, x.ctypes.data, x.nbytes, dtype, at_most)


def message(sender: int, receiver: int, tag: int, nbytes: int) -> Bytes:
    return ((np.arange(nbytes) * 7 + 31 * sender + 17 * receiver + tag) % 251).astype(np.uint8)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_everyone_writes_to_everyone_at_once(ranks: int) -> None:
    """Also to oneself, of all lengths, several to the same peer, sends listed first: no order deadlocks."""
    lengths = (0, 1, 24, 25, 4096, 65536, 65537, 1_000_003)

    def rank_of(group: _native.Group, rank: int) -> Any:
        pairs = [(peer, tag, n) for peer in range(ranks) for tag, n in enumerate(lengths)]
        out = [message(rank, peer, tag, n) for peer, tag, n in pairs]
        into = [np.zeros(n, np.uint8) for _, _, n in pairs]
        sends = [post(True, p, x, tag) for (p, tag, _), x in zip(pairs, out, strict=True)]
        receives = [post(False, p, x, tag) for (p, tag, _), x in zip(pairs, into, strict=True)]
        group.exchange(sends + receives[::-1], 60)
        for (peer, tag, n), got in zip(pairs, into, strict=True):
            np.testing.assert_array_equal(got, message(peer, rank, tag, n))
        return group.counters().tolist()

    from_each = [sum(lengths), len(lengths)]
    for rank, counted in enumerate(values(world(ranks, rank_of))):
        assert counted == [[0, 0] if peer == rank else from_each for peer in range(ranks)]


def test_order_is_kept_per_tag_and_tags_are_apart() -> None:
    def rank_of(group: _native.Group, rank: int) -> list[int]:
        if rank == 0:
            for k in range(20):
                x = np.full(100_000 if k == 3 else 8, k, np.uint8)
                group.exchange([post(True, 1, x, tag=k % 2)], 60)
            return []
        time.sleep(0.1)
        got = []
        for k in [*range(1, 20, 2), *range(0, 20, 2)]:  # all the odd ones first
            x = np.zeros(100_000 if k == 3 else 8, np.uint8)
            group.exchange([post(False, 0, x, tag=k % 2)], 60)
            assert (x == x[0]).all()
            got.append(int(x[0]))
        return got

    assert values(world(2, rank_of))[1] == [*range(1, 20, 2), *range(0, 20, 2)]


def test_a_message_that_is_wanted_while_it_arrives() -> None:
    """Half of it was kept aside, for another message was asked for first."""

    def rank_of(group: _native.Group, rank: int) -> bool:
        big, small = np.full(3_000_000, 9, np.uint8), np.full(8, 5, np.uint8)
        if rank == 0:
            group.exchange([post(True, 1, small, tag=2), post(True, 1, big, tag=1)], 60)
            return True
        a, b = np.zeros_like(big), np.zeros_like(small)
        group.exchange([post(False, 0, b, tag=2)], 60)
        group.exchange([post(False, 0, a, tag=1)], 60)
        return bool((a == 9).all() and (b == 5).all())

    assert values(world(2, rank_of)) == [True, True]


def test_messages_pass_while_another_thread_waits() -> None:
    from threading import Thread

    def rank_of(group: _native.Group, rank: int) -> int:
        late, early = np.full(4, rank, np.uint8), np.zeros(4, np.uint8)
        receiving = Thread(target=group.exchange, args=([post(False, 1 - rank, early, tag=1)], 60))
        receiving.start()
        time.sleep(0.05)
        group.exchange([post(True, 1 - rank, late, tag=1)], 60)
        receiving.join()
        return int(early[0])

    assert values(world(2, rank_of)) == [1, 0]


@pytest.mark.parametrize("what", ["length", "type"])
def test_a_length_or_type_that_differs_is_a_mismatch(what: str) -> None:
    def rank_of(group: _native.Group, rank: int) -> None:
        x = np.zeros(8 + 4 * rank * (what == "length"), np.uint8)
        group.exchange([post(rank == 0, 1 - rank, x, tag=3, dtype=11 if rank and what == "type" else 5)], 60)
        if rank == 0:
            y = np.zeros(1, np.uint8)
            group.exchange([post(False, 1, y)], 60)

    ends = world(2, rank_of)
    assert [end.error for end in ends] == [_native.Mismatch] * 2
    want = "12 bytes of uint8" if what == "length" else "8 bytes of float32"
    assert f"rank 0 sent 8 bytes of uint8 with tag 3 where rank 1 receives {want}" in ends[1].text


def test_a_receive_nobody_answers_times_out_and_the_group_lives_on() -> None:
    gave_up = Event()

    def rank_of(group: _native.Group, rank: int) -> int:
        x = np.full(4, rank + 1, np.uint8)
        if rank == 0:
            with pytest.raises(_native.TimedOut, match=r"rank 0 waited 0\.1 s for rank 1 in recv from rank 1, tag 9"):
                group.exchange([post(False, 1, x, tag=9)], 0.1)
            gave_up.set()
            group.exchange([post(False, 1, x, tag=8)], 60)
            return int(x[0])
        gave_up.wait()
        group.exchange([post(True, 0, x, tag=8)], 60)
        return 0

    assert values(world(2, rank_of)) == [2, 0]


def test_a_message_with_another_tag_is_named_where_a_receive_waits_in_vain() -> None:
    sent, received = Event(), Event()

    def rank_of(group: _native.Group, rank: int) -> int:
        x = np.full(4, rank + 1, np.uint8)
        if rank == 1:
            group.exchange([post(True, 0, x, tag=5)], 60)
            sent.set()
            received.wait()
            return 0
        sent.wait()
        instead = r"recv from rank 1, tag 6 \(a message of rank 1 with tag 5 has come and waits for its recv\)$"
        with pytest.raises(_native.TimedOut, match=instead):
            group.exchange([post(False, 1, x, tag=6)], 0.1)
        group.exchange([post(False, 1, x, tag=5)], 60)
        received.set()
        return int(x[0])

    assert values(world(2, rank_of)) == [2, 0]


def test_a_dead_and_a_departed_peer_are_named() -> None:
    def rank_of(group: _native.Group, rank: int) -> None:
        x = np.zeros(4, np.uint8)
        if rank == 1:
            return
        if rank == 2:
            time.sleep(0.2)
            nw.die()
        with pytest.raises(_native.PeerDied, match="rank 1 left"):
            group.exchange([post(False, 1, x)], 60)

    ends = world(3, rank_of)
    assert ends[0].error is None, ends[0].text


@pytest.mark.parametrize(
    ("tag", "named"), [(5, "recv from rank 1, tag 5"), (COPY, "copy from rank 1"), (FREE, "a message from rank 1")]
)
def test_a_dead_peer_is_named_with_the_message(tag: int, named: str) -> None:
    def widow(group: _native.Group, rank: int) -> None:
        if rank == 1:
            nw.die()
        group.exchange([post(False, 1, np.zeros(4, np.uint8), tag)], 60)

    ends = world(2, widow)
    assert ends[0].error is _native.PeerDied and ends[0].args[1] == 1
    assert "rank 1 died (process " in ends[0].text and f"waited for it in {named}" in ends[0].text
