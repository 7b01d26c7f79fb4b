"""When ranks die, leave, disagree or stay away: every rank soon gets an error with rank and cause."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringtree import ANY, Mismatch, PeerDied, Poisoned, RankFailed, TimedOut, spawn, wait_any
from ringtree.runtime.bootstrap.local.abstract_socket import AbstractSocket
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.messages.work import Message
from ringtree.runtime.engines.engine import in_threads
from tests.waiting import Event, Naps

Act = Callable[[Communicator], object]


def outcomes(engine: str, n: int, act: Act, timeout_s: float = 60) -> list[tuple[str, str, str]]:
    """What each rank's `act` raised (type and message), and the error of the group's next call."""

    def rank(comm: Communicator) -> tuple[str, str, str]:
        try:
            act(comm)
        except Exception as error:  # noqa: BLE001  # tests look at it
            try:
                comm.barrier()
                return type(error).__name__, str(error), "nothing"
            except Exception as after:  # noqa: BLE001
                return type(error).__name__, str(error), type(after).__name__
        return "none", "", ""

    return spawn(rank, n, engine=engine, threads=in_threads(engine), timeout_s=timeout_s)


def one_differs(usual: Act, other: Act) -> Act:
    """Rank 1 does something else. A rank that only sends may be done before that is noticed: its next call raises."""
    return lambda comm: ((other if comm.rank == 1 else usual)(comm), comm.barrier())


ONES = np.ones(1000, np.float32)
USUAL = "all_reduce(float32, sum, count 1000)"


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (lambda c: c.all_reduce(ONES[:999]), "all_reduce(float32, sum, count 999)"),
        (lambda c: c.all_reduce(ONES[:0]), "all_reduce(float32, sum, count 0)"),
        (lambda c: c.all_reduce(np.ones(1000)), "all_reduce(float64, sum, count 1000)"),
        (lambda c: c.all_reduce(np.ones(1000, np.int32)), "all_reduce(int32, sum, count 1000)"),
        (lambda c: c.all_reduce(ONES, "max"), "all_reduce(float32, max, count 1000)"),
        (lambda c: c.broadcast(ONES.copy()), "broadcast(float32, count 1000, root 0)"),
        (lambda c: c.reduce(ONES, root=2), "reduce(float32, sum, count 1000, root 2)"),
        (lambda c: c.all_to_all(np.ones(3)), "all_to_all(float64, count 3)"),
        (lambda c: c.barrier(), "barrier("),
    ],
)
def test_a_mismatch_names_both_sides_on_every_rank(engine: str, other: Act, expected: str) -> None:
    act = one_differs(lambda c: c.all_reduce(ONES), other)
    for kind, message, after in outcomes(engine, 3, act):
        assert kind == Mismatch.__name__
        assert USUAL in message
        assert expected in message
        assert "rank 1" in message
        assert after == Poisoned.__name__


def test_the_first_call_that_differs_is_named() -> None:
    """Rank 0 hears of rank 1's second call before anybody has heard of its first."""
    naps_s = (0.2, 0.0, 0.2, 0.6)

    def act(comm: Communicator) -> None:
        time.sleep(naps_s[comm.rank])
        one_differs(lambda c: c.all_reduce(ONES), lambda c: c.reduce(ONES, root=3))(comm)

    for kind, message, _ in outcomes("shm", 4, act):
        assert kind == Mismatch.__name__
        assert "rank 1 called reduce(float32, sum, count 1000, root 3) as call 1" in message


def test_another_root_is_a_mismatch(engine: str) -> None:
    act = one_differs(lambda c: c.broadcast(ONES.copy(), 0), lambda c: c.broadcast(ONES.copy(), 1))
    for kind, message, _ in outcomes(engine, 3, act):
        assert kind == Mismatch.__name__
        assert "root 0" in message
        assert "root 1" in message


@pytest.mark.parametrize("late_s", [0.0, 0.2])
@pytest.mark.parametrize("on", ["shm", "emulated"])
def test_every_rank_of_a_root_mismatch_hears_by_its_close(late_s: float, on: str) -> None:
    """Both roots only send, and 2 gets what it expects; the others come a little later than root 0 closes."""
    ended = [Event() for _ in range(3)]

    def rank(comm: Communicator) -> str:
        comm.barrier()
        time.sleep(late_s * (comm.rank > 0))
        try:
            comm.broadcast(ONES.copy(), 1 if comm.rank == 1 else 0)
            comm.close()
            return "nothing"
        except Mismatch as error:
            return str(error)
        finally:
            ended[comm.rank].set()
            for each in ended:
                each.wait()

    for text in spawn(rank, 3, engine=on, timeout_s=60):
        assert re.search(r"root [01]\) as call 2 while rank . called broadcast.*root [01]\) as call 2", text), text


@pytest.mark.parametrize("who", [(0, 1, 2), (1,)])
def test_ranks_that_check_hear_of_a_mismatch_in_the_call_itself(who: tuple[int, ...]) -> None:
    """Where one rank asks for it, all compare."""

    def rank(world: Communicator) -> list[float]:
        os.environ["RINGTREE_CHECK"] = str(int(world.rank in who))
        comm = world.duplicate()
        x = np.full(1000, float(comm.rank))
        for _ in range(3):
            comm.broadcast(x, 0)
        assert comm.all_reduce(x)[0] == 0
        group = comm.duplicate()
        x[:] = comm.rank
        with pytest.raises(
            Mismatch, match=r"root [01]\) as call 1 while rank . called broadcast.*root [01]\) as call 1"
        ):
            group.broadcast(x, 1 if comm.rank == 1 else 0)
        return [x.min(), x.max()]

    assert spawn(rank, 3, timeout_s=60) == [[r, r] for r in range(3)]


def test_another_algorithm_is_a_mismatch(engine: str) -> None:
    act = one_differs(
        lambda c: c.all_reduce(ONES, algorithm="ring"), lambda c: c.all_reduce(ONES, algorithm="one_shot")
    )
    assert {kind for kind, _, _ in outcomes(engine, 3, act)} == {Mismatch.__name__}


def test_a_mismatch_writes_to_nobodys_output(engine: str) -> None:
    def act(comm: Communicator) -> None:
        out = np.full(1000, 7, np.float32)
        try:
            comm.all_reduce(ONES if comm.rank else ONES[:999], out=out if comm.rank else out[:999])
        except Mismatch:
            assert (out == 7).all()
            raise

    assert {kind for kind, _, _ in outcomes(engine, 2, act)} == {Mismatch.__name__}


def test_a_message_of_another_size_is_a_mismatch(engine: str) -> None:
    def act(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.send(np.ones(3), 1)
            with suppress(Mismatch):  # it may have reached the other by then
                comm.close()
        else:
            comm.recv(np.ones(4), 0)

    kind, message, _ = outcomes(engine, 2, act)[1]
    assert kind == Mismatch.__name__
    assert "24" in message
    assert "32" in message


def test_an_absent_rank_is_named_when_time_is_up(engine: str) -> None:
    reported = Event()

    def act(comm: Communicator) -> None:
        comm.barrier()
        if comm.rank == 1:
            reported.wait()
            comm.all_reduce(ONES)
        comm.set_timeout(0.3)
        try:
            comm.all_reduce(ONES)
        finally:
            reported.set()

    answers = outcomes(engine, 2, act)
    assert answers[0][0] == TimedOut.__name__
    assert "rank 1" in answers[0][1]
    assert "all_reduce" in answers[0][1]
    assert answers[1][0] != "none"


def test_a_rank_that_leaves_early_is_named(engine: str) -> None:
    def act(comm: Communicator) -> None:
        if comm.rank == 2:
            comm.close()
            raise ValueError("left")
        comm.all_reduce(ONES)

    for kind, message, _ in outcomes(engine, 3, act)[:2]:
        assert kind == PeerDied.__name__
        assert re.search(r"rank 2.*left", message)


def test_leaving_after_the_last_call_harms_nobody(engine: str) -> None:
    def act(comm: Communicator) -> None:
        comm.all_reduce(ONES)
        if comm.rank:
            time.sleep(0.1)
        comm.close()

    assert {kind for kind, _, _ in outcomes(engine, 3, act)} == {"none"}


def test_a_rank_that_raises_is_named_to_the_parent_and_the_others_end(engine: str) -> None:
    def act(comm: Communicator) -> None:
        if comm.rank == 1:
            raise KeyError("lost")
        comm.barrier()

    with pytest.raises(RankFailed, match="rank 1 of 3 failed: KeyError: 'lost'") as caught:
        spawn(act, 3, engine=engine, threads=in_threads(engine), timeout_s=60)
    assert caught.value.rank == 1
    assert isinstance(caught.value.__cause__, KeyError)
    assert "in act" in str(caught.value)


def until_done(message: Message) -> None:
    while not message.done():
        pass
    message.wait()


CALLS: dict[str, Act] = {
    "ring": lambda c: c.all_reduce(ONES, algorithm="ring"),
    "two_shot": lambda c: c.all_reduce(np.ones(1 << 20), algorithm="two_shot"),
    "one_shot": lambda c: c.all_reduce(ONES, algorithm="one_shot"),
    "halving_doubling": lambda c: c.all_reduce(ONES, algorithm="halving_doubling"),
    "double_tree": lambda c: c.broadcast(ONES.copy(), algorithm="double_tree"),
    "pairwise": lambda c: c.all_to_all(np.ones(4000)),
    "barrier": lambda c: c.barrier(),
    "async": lambda c: c.all_reduce(ONES, async_op=True).wait(),
    "recv": lambda c: c.recv(ONES.copy(), 2),
    "recv from any": lambda c: c.recv(ONES.copy(), ANY),
    "irecv": lambda c: c.irecv(ONES.copy(), 2).wait(),
    "irecv, polled": lambda c: until_done(c.irecv(ONES.copy(), ANY)),
    "wait_any": lambda c: wait_any([c.irecv(ONES.copy(), ANY), c.irecv(ONES.copy(), 0)]),
    "probe": lambda c: c.probe(),
    "iprobe": lambda c: c.iprobe(),
    "recv_object": lambda c: c.recv_object(2),
    "split": lambda c: c.split(0),
}


@pytest.mark.parametrize("call", list(CALLS))
def test_a_death_is_named_to_every_survivor_within_a_second(call: str, tmp_path: Path) -> None:
    pytest.importorskip("ringtree._native")
    dies = Event()

    def rank(comm: Communicator) -> None:
        comm.all_reduce(ONES)
        comm.barrier()
        if comm.rank == 2:
            time.sleep(0.05)  # the others wait by now
            dies.set()
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            with Naps(dies.is_set) as naps:
                while True:
                    CALLS[call](comm)
        except Exception as error:  # noqa: BLE001  # whatever it is, it goes on record
            record = {"kind": type(error).__name__, "message": str(error), "naps": naps.count, "args": error.args[1:]}
            (tmp_path / f"rank{comm.rank}").write_text(json.dumps(record))

    with pytest.raises(RankFailed, match="rank 2 of 4 failed: its process was killed by SIGKILL"):
        spawn(rank, 4, timeout_s=60)
    for survivor in (0, 1, 3):
        raised: dict[str, Any] = json.loads((tmp_path / f"rank{survivor}").read_text())
        assert raised["kind"] == PeerDied.__name__, raised
        assert "rank 2" in raised["message"]
        assert raised["args"] == [2]
        assert raised["naps"] < Naps.A_SECOND


@pytest.mark.parametrize("call", ["split", "empty"])
@pytest.mark.parametrize("victim", [0, 2])
def test_a_death_before_a_synchronization_is_named_too(call: str, victim: int, tmp_path: Path) -> None:
    """The rank has announced itself over the group's lanes, and dies before it meets the others."""
    pytest.importorskip("ringtree._native")
    dies = Event()

    def die() -> None:
        dies.set()
        os.kill(os.getpid(), signal.SIGKILL)

    def rank(comm: Communicator) -> None:
        if comm.rank == victim:
            pytest.MonkeyPatch().setattr(AbstractSocket, "share", lambda *_, **__: die())
        expected = rf"rank {victim} died .* while rank \d waited for its peers in {call}"
        with Naps(dies.is_set) as naps, pytest.raises(PeerDied, match=expected):
            comm.split(0) if call == "split" else comm.empty(5)
        assert naps.count < Naps.A_SECOND
        (tmp_path / str(comm.rank)).touch()

    with pytest.raises(RankFailed, match=rf"rank {victim} of 3 failed: its process was killed by SIGKILL"):
        spawn(rank, 3, timeout_s=60)
    assert {p.name for p in tmp_path.iterdir()} == {"0", "1", "2"} - {str(victim)}


def test_two_deaths_leave_no_one_waiting(tmp_path: Path) -> None:
    pytest.importorskip("ringtree._native")

    def rank(comm: Communicator) -> None:
        if comm.rank in (1, 3):
            comm.barrier()
            os._exit(9)
        with pytest.raises((PeerDied, Poisoned)):
            comm.barrier()  # in which they may die, too
            while True:
                comm.all_reduce(ONES)
        (tmp_path / str(comm.rank)).touch()

    with pytest.raises(RankFailed, match=r"rank [13] of 5 failed: its process exited with code 9"):
        spawn(rank, 5, timeout_s=60)
    assert {p.name for p in tmp_path.iterdir()} == {"0", "2", "4"}


def test_an_aborting_rank_ends_the_waits_of_all(engine: str) -> None:
    aborted = Event()

    def abort(comm: Communicator) -> None:
        comm.abort("no more")
        aborted.set()

    def rank(comm: Communicator) -> str:
        if comm.rank == 0:
            threading.Timer(0.2, abort, [comm]).start()
        if comm.rank == 2:
            aborted.wait()
            comm.abort()  # again does no harm
        else:
            with pytest.raises(Poisoned, match="rank 0 aborted the group: no more"):
                comm.all_reduce(ONES)
        aborted.wait()  # on rank 0, too: its process may else end before its other thread sets it
        with pytest.raises(Poisoned):
            comm.barrier()
        comm.close()
        comm.abort()
        return "done"

    assert spawn(rank, 3, engine=engine, threads=in_threads(engine), timeout_s=60) == ["done"] * 3


def test_the_timeout_can_be_set_anew(engine: str) -> None:
    reported = Event()

    def rank(comm: Communicator) -> str:
        with pytest.raises(ValueError, match="timeout_s is 0; expected a positive number of seconds"):
            comm.set_timeout(0)
        with pytest.raises(ValueError, match="timeout_s is '3'; expected a positive number of seconds"):
            comm.set_timeout("3")  # type: ignore[arg-type]
        comm.barrier()
        if comm.rank == 0:
            comm.set_timeout(0.2)
            with pytest.raises(TimedOut, match=r"rank 0 waited 0\.2 s"):
                comm.barrier()
            reported.set()
        reported.wait()
        return "done"

    assert spawn(rank, 2, engine=engine, threads=in_threads(engine), timeout_s=60) == ["done"] * 2


def test_a_wait_for_a_staging_slot_is_named() -> None:
    """Rank 1 never receives: rank 0 goes on until its slots are all under way."""
    reported = Event()

    def rank(comm: Communicator) -> str:
        if comm.rank == 1:
            reported.wait()
            return ""
        comm.set_timeout(0.2)
        with pytest.raises(TimedOut) as raised:
            for _ in range(100):
                comm.broadcast(np.zeros(2_000), root=0)
        reported.set()
        return str(raised.value)

    text, _ = spawn(rank, 2)
    assert re.search(r"rank 0 waited 0\.2 s for rank 1 in broadcast, call \d+ \(for one of \d+ staging slots, ", text)
