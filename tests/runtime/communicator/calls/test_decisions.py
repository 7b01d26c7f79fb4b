"""A decision that one rank has made is read by the others, and none waits for it for long."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import PeerDied, RankFailed, plan, spawn
from ringtree.algorithms.groups import written
from ringtree.plan import CallTuning
from ringtree.price import Hosts
from ringtree.price.memory import BUILT_IN, SharedMemory
from ringtree.runtime.communicator.calls import decisions
from ringtree.runtime.communicator.calls.decisions import Decision, Decisions
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters

MEMORY = SharedMemory(2, 8, 1 << 17, BUILT_IN)
FRESH = os.getpid() << 20
"""Sizes of no other test: what a process has decided is known to those forked from it."""


class Memo:
    """The memo of one rank: the answer of `known`, and the published decisions, unless they are `refused`."""

    def __init__(self, *answers: bytes | bool | None, refused: bool = False) -> None:
        self.answers, self.published, self.asked = list(answers), dict[int, bytes](), 0
        self.refused = refused

    def known(self, key: int) -> bytes | bool | None:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def missing_claimant(self, key: int) -> int:
        return -1

    def publish(self, key: int, value: bytes) -> bool:
        self.published[key] = value
        return not self.refused

    def check_liveness(self, what: str, ranks: list[int], absent: list[int]) -> None:
        pass


SHORT = 1 << 14
"""Bytes of a sum that 4 ranks write into symmetric arrays by two_shot, and send by one_shot where those are private."""


def short_sum(memo: Memo, symmetric: bool) -> str:
    memory = SharedMemory(2, 8, 1 << 17, BUILT_IN)
    return Decisions(memo).decide(GROUP, "all_reduce", -1, SHORT, memory, symmetric=symmetric).algorithm


@pytest.mark.parametrize("first", [True, False])
def test_the_rank_that_decides_takes_its_arrays_for_all(first: bool) -> None:
    memo = Memo(True)
    expected = "two_shot" if first else "one_shot"
    assert short_sum(memo, first) == expected
    (value,) = memo.published.values()
    assert short_sum(Memo(value), not first) == expected


@pytest.mark.parametrize("answer", [None, b""])
def test_ranks_that_decide_each_for_itself_take_no_array_for_symmetric(answer: bytes | None) -> None:
    assert short_sum(Memo(answer), True) == "one_shot"


def test_a_decision_that_the_others_do_not_read_takes_no_array_for_symmetric() -> None:
    """It is too long, or came after one of them had given it up."""
    assert short_sum(Memo(True, refused=True), True) == "one_shot"


def test_a_rank_that_waits_in_vain_gives_the_decision_up_for_all() -> None:
    memo = Memo(False)
    assert short_sum(memo, True) == "one_shot"
    assert list(memo.published.values()) == [b""]


def test_a_decision_that_comes_as_it_is_given_up_is_read() -> None:
    decided = Memo(True)
    short_sum(decided, True)
    (value,) = decided.published.values()
    late = Memo(False, refused=True)

    def publish(key: int, given: bytes) -> bool:
        late.answers = [value]
        return False

    late.publish = publish  # type: ignore[method-assign]
    assert short_sum(late, False) == "two_shot"


def test_a_rank_that_forgot_decides_alike_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "KEPT", 1)
    memory, memo = SharedMemory(2, 8, 1 << 17, BUILT_IN), Memo(True)
    mine = Decisions(memo)
    first = mine.decide(GROUP, "all_reduce", -1, SHORT, memory, symmetric=True)
    mine.decide(GROUP, "all_reduce", -1, 2 * SHORT, memory, symmetric=True)
    memo.answers = [next(iter(memo.published.values()))]
    assert mine.decide(GROUP, "all_reduce", -1, SHORT, memory, symmetric=False) == first


def test_threads_forget_the_oldest_beside_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two drop the same decision at once."""
    threads = 2
    both_drop = threading.Barrier(threads, timeout=10)

    class Kept(dict[Any, Any]):
        def pop(self, *given: Any) -> Any:
            both_drop.wait()
            return super().pop(*given)

    decision = Decision("ring", CallTuning(), "")
    monkeypatch.setattr(decisions, "KEPT", 1)
    monkeypatch.setattr(decisions, "_decided", Kept({("oldest",): decision}))
    with ThreadPoolExecutor(threads) as pool:
        ours = Decisions(Memo(None))
        assert list(pool.map(lambda k: ours._once(GROUP, (k,), lambda: decision), range(threads))) == [decision] * 2
    assert set(decisions._decided) == {(k,) for k in range(threads)}


@pytest.mark.parametrize("node_of", [(), (0, 0, 0, 0, 1, 1, 1, 1)])
def test_a_sum_has_the_same_bits_whichever_rank_decides(node_of: tuple[int, ...]) -> None:
    group = GroupParameters("nowhere", 0, tuple(map(str, range(8))), timeout_s=0.01)
    memory = SharedMemory(1 << 20, 8, 1 << 17, BUILT_IN, node_of=node_of)
    for nbytes in (1 << k for k in range(15, 25)):
        found = [
            Decisions(Memo(True)).decide(group, "all_reduce", -1, nbytes, memory, symmetric=symmetric)
            for symmetric in (True, False)
        ]
        at_once = {one.algorithm for one in found} <= set(plan.at_once("all_reduce"))
        assert at_once or found[0].steps == found[1].steps, nbytes


@pytest.fixture(autouse=True)
def nothing_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_decided", {})


CLAIMED = int.from_bytes(hashlib.sha256(b"claimed").digest()[:8], "little")
GROUP = GroupParameters("nowhere", 0, ("0", "1", "2", "3"), timeout_s=0.01)


def all_reduce(memo: Memo, nbytes: int = 1 << 20) -> Decision:
    return Decisions(memo).decide(GROUP, "all_reduce", -1, nbytes, MEMORY)


def test_the_claiming_rank_publishes_and_others_read_the_same() -> None:
    first = Memo(True)
    decided = all_reduce(first)
    (value,) = first.published.values()
    decisions._decided.clear()
    second = Memo(False, False, value)
    assert all_reduce(second) == decided
    assert (second.asked, second.published) == (3, {})


def test_a_process_asks_once_for_sizes_of_one_kind() -> None:
    memo = Memo(True)
    mine = Decisions(memo)
    for collective in ("all_reduce", "all_gather"):
        memo.asked = 0
        some, like, longer = (mine.decide(GROUP, collective, -1, n, MEMORY) for n in (1 << 20, (1 << 19) + 1, 1 << 21))
        assert some is like and some is not longer
        assert memo.asked == 2
    assert Decisions(memo).decide(GROUP, "broadcast", 1, 1 << 20, MEMORY) != Decisions(memo).cut(
        GROUP, "chain", "broadcast", 1, 1 << 20, MEMORY
    )
    assert memo.asked == 4


@pytest.mark.parametrize("answer", [False, None, b""])
def test_a_rank_without_a_memo_decides_and_publishes_no_decision(answer: bytes | bool | None) -> None:
    memo = Memo(answer)
    decided = all_reduce(memo)
    decisions._decided.clear()
    assert decided == all_reduce(Memo(True))
    assert not any(memo.published.values())


def test_a_rank_that_fails_to_decide_lets_the_others_go_on() -> None:
    memo = Memo(True)
    with pytest.raises(ValueError, match="ring"):
        Decisions(memo).cut(GROUP, "no such ring", "all_reduce", -1, 8, MEMORY)
    assert list(memo.published.values()) == [b""]


@given(
    st.builds(
        Decision,
        st.text(max_size=9),
        st.builds(
            CallTuning,
            st.lists(st.tuples(st.text(max_size=9), st.integers(0, 99)), max_size=2).map(tuple),
            st.booleans(),
            *[st.integers(0, 1 << 20)] * 3,
            st.booleans(),
            st.integers(0, 1 << 20),
        ),
        st.text(max_size=9),
    )
)
def test_published_decisions_read_back(decision: Decision) -> None:
    decisions._decided.clear()
    memo = Memo(True)
    assert Decisions(memo)._once(GROUP, ("question",), lambda: decision) == decision
    decisions._decided.clear()
    read = Decisions(Memo(*memo.published.values()))._once(GROUP, ("question",), lambda: pytest.fail("decided again"))
    assert (read, read.steps.slots) == (decision, decision.steps.slots)


def test_the_nodes_of_ranks_are_not_published() -> None:
    node_of = (0, 1, 1, 0)
    memory = SharedMemory(4, 8, 1 << 17, BUILT_IN, node_of=node_of)
    memo = Memo(True)
    decided = Decisions(memo).decide(GROUP, "all_gather", -1, 1 << 20, memory)
    assert dict(decided.steps.options)["group"] == written(node_of)
    (value,) = memo.published.values()
    assert written(node_of).encode() not in value
    decisions._decided.clear()
    assert Decisions(Memo(value)).decide(GROUP, "all_gather", -1, 1 << 20, memory) == decided


def test_the_hosts_of_many_ranks_are_not_published() -> None:
    """An entry of the memo has 496 bytes, and a nested algorithm's option names the host of every rank."""
    hosts = Hosts(tuple(rank * 7 % 15 for rank in range(40)), MEMORY, 1e-3)
    group, memo = GroupParameters("nowhere", 0, tuple(map(str, range(40))), timeout_s=0.01), Memo(True)
    decided = Decisions(memo).decide(group, "all_reduce", -1, 8, hosts)
    assert dict(decided.steps.options)["group"] == written(hosts.host_of)
    (value,) = memo.published.values()
    assert len(value) < 496
    decisions._decided.clear()
    assert Decisions(Memo(value)).decide(group, "all_reduce", -1, 8, hosts) == decided


def decides(comm: Communicator) -> tuple[int, str]:
    """How often this rank computes a decision, where rank 0 does it first."""
    made = 0

    def counted(*what: object) -> object:
        nonlocal made
        made += 1
        return choose(*what)

    comm.barrier()  # which is decided, too
    choose, plan.choose = plan.choose, counted  # type: ignore[assignment]
    if comm.rank > 0:
        comm.barrier()
    chosen = comm.chosen("all_reduce", FRESH + 5)
    if comm.rank == 0:
        comm.barrier()
    return made, chosen.why


def test_one_rank_decides_for_all() -> None:
    pytest.importorskip("ringtree._native")
    made = spawn(decides, 4, timeout_s=60)
    assert [count for count, _ in made] == [1, 0, 0, 0]
    assert len({why for _, why in made}) == 1


def a_ring(decides: bool) -> Decision:
    return Decision("ring", CallTuning(), "")


def dies_with_a_claim(comm: Communicator) -> str:
    """Rank 0 has claimed the key when the others come."""

    def die(decides: bool) -> Decision:
        comm.barrier()
        os._exit(3)

    if comm.rank == 0:
        comm._calls.selection._decisions._shared(comm._parameters, "a question", die, "")
    comm.barrier()
    with pytest.raises(
        PeerDied, match=r"rank 0 died .* while rank \d waited for its peers in the choice of an algorithm"
    ):
        comm._calls.selection._decisions._shared(comm._parameters, "a question", a_ring, "")
    return "named"


def test_a_rank_that_dies_with_its_claim_is_named_to_waiting_ranks() -> None:
    pytest.importorskip("ringtree._native")
    with pytest.raises(RankFailed, match="rank 0 of 3 failed: its process exited with code 3"):
        spawn(dies_with_a_claim, 3, timeout_s=60)


def leaves_with_a_claim(comm: Communicator) -> str:
    """Rank 0 has claimed a key, and leaves without its value; rank 1 leaves when it has published another's."""
    endpoint = comm._endpoint
    if comm.rank == 1:
        endpoint.known(CLAIMED + 1)
        endpoint.publish(CLAIMED + 1, b"published")
    if comm.rank == 0:
        assert endpoint.known(CLAIMED) is True
    comm.barrier()
    if comm.rank < 2:
        comm.close()
        return "left"
    while [peer.state for peer in comm.health()[:2]] != ["left", "left"]:
        time.sleep(0.001)
    assert endpoint.missing_claimant(CLAIMED + 1) == -1
    began_s = time.monotonic()
    with pytest.raises(
        PeerDied, match=r"rank 0 left the group while rank 2 waited for it in the choice of an algorithm"
    ):
        comm._calls.selection._decisions._awaited(comm._parameters, CLAIMED)
    assert time.monotonic() - began_s < 5
    return "named"


def test_a_rank_that_leaves_with_its_claim_is_named_to_waiting_ranks() -> None:
    pytest.importorskip("ringtree._native")
    assert spawn(leaves_with_a_claim, 3, timeout_s=60) == ["left", "left", "named"]


def fills(comm: Communicator) -> list[object]:
    """The answers of `known` for many keys: claimed here until there is no room, and then still readable."""
    endpoint = comm._endpoint
    claims = [endpoint.known(key) for key in range(1, 300)]
    assert endpoint.publish(5, b"five")
    assert not endpoint.publish(5, b"") and not endpoint.publish(5, b"6ive")
    assert not endpoint.publish(6, bytes(1000))
    assert endpoint.publish(8, b"") and endpoint.publish(8, b"") and not endpoint.publish(8, b"late")
    assert not endpoint.publish(299, b"nobody claimed it")
    return [
        claims[0],
        claims[-1],
        sum(claim is True for claim in claims),
        endpoint.known(5),
        endpoint.known(6),
        endpoint.known(7),
        endpoint.known(8),
    ]


def test_a_full_memo_raises_and_keeps_its_entries() -> None:
    pytest.importorskip("ringtree._native")
    assert spawn(fills, 1, engine="shm", timeout_s=60) == [[True, None, 128, b"five", b"", False, b""]]


def waits_for_a_claim(comm: Communicator) -> str:
    """The time limit is the group's at the moment, not the one that it was made with."""
    comm._endpoint.known(CLAIMED)
    comm.barrier()
    comm.set_timeout(0.05)
    return comm._calls.selection._decisions._shared(comm._parameters, "claimed", a_ring, "").algorithm


def decides_late(comm: Communicator) -> str:
    """Rank 0 has a decision of its own when the others have given it up."""

    def make(decides: bool) -> Decision:
        if decides:
            comm.barrier()
            comm.barrier()
        return Decision("two_shot" if decides else "one_shot", CallTuning(), "")

    if comm.rank == 0:
        return comm._calls.selection._decisions._shared(comm._parameters, "late", make, "", differs=True).algorithm
    comm.barrier()
    comm.set_timeout(0.05)
    decided = comm._calls.selection._decisions._shared(comm._parameters, "late", make, "", differs=True).algorithm
    comm.set_timeout(1000)
    comm.barrier()
    return decided


def test_a_rank_that_decides_late_decides_as_those_that_gave_it_up() -> None:
    pytest.importorskip("ringtree._native")
    assert spawn(decides_late, 3, timeout_s=1000) == ["one_shot"] * 3


def test_a_rank_waits_for_a_claim_as_long_as_the_group_waits_now() -> None:
    pytest.importorskip("ringtree._native")
    assert spawn(waits_for_a_claim, 2, timeout_s=1000) == ["ring", "ring"]
