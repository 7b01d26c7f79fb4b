"""A rank that is interrupted between two engine calls of one of its own leaves no group in which others go on with the
data of other calls."""

from __future__ import annotations

import dis
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import Op, PeerDied, Poisoned, TimedOut, spawn, storage
from ringtree.runtime.communicator import composite
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.composite import CompositeCall
from tests.runtime.communicator.membership.test_shrink import works
from tests.runtime.conftest import available

pytestmark = pytest.mark.skipif(not available("shm"), reason="the native engine is not built")

JUMP_BACKWARD = dis.opmap.get("JUMP_BACKWARD")
"""From Python 3.12 on a comprehension is no function: what a trace raises as its loop goes on passes by the `with`
around it, which a signal's exception does not."""
UNTRACED = ("__init__", "__del__", "forget")
"""Functions that the collector of garbage calls, whose errors reach nobody, and what they need to be complete."""
PACKAGE = os.path.dirname(ringtree.__file__)
TRACED = tuple(f"{PACKAGE}/{folder}/" for folder in ("runtime/communicator", "mpi", "storage", "runtime/tracing"))


class InterruptAt:
    """Raises KeyboardInterrupt at a line of this thread in the code of communicators, counted from 1. `where`: the
    line, once it has come."""

    def __init__(self, line: int) -> None:
        self._left, self.where = line, ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code.co_filename == composite.__file__ or not code.co_filename.startswith(TRACED):
            return None
        if code.co_name in UNTRACED:
            return None
        if event == "line" and self._left > 0 and code.co_code[frame.f_lasti] != JUMP_BACKWARD:
            self._left -= 1
            if self._left == 0:
                self.where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def interrupted(line: int, call: Callable[[], Any]) -> str:
    """Makes the call, which is interrupted at that line: where that was; "" where it has fewer lines."""
    interrupt, before = InterruptAt(line), sys.gettrace()
    sys.settrace(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        return interrupt.where
    finally:
        sys.settrace(before)
    assert interrupt.where == ""
    return ""


def traced_block(comm: Communicator) -> None:
    with comm.trace():
        pass


def by_function(comm: Communicator) -> Any:
    return comm.all_reduce(np.ones(2), Op(lambda a, b: a + b, commutative=True))


CALLS: dict[str, Callable[[Communicator], Any]] = {
    "broadcast_object": lambda c: c.broadcast_object({"a": 1}, root=1),
    "gather_object": lambda c: c.gather_object(c.rank),
    "all_gather_object": lambda c: c.all_gather_object(c.rank),
    "scatter_object": lambda c: c.scatter_object([1, 2], root=1),
    "all_to_all_object": lambda c: c.all_to_all_object([1, 2]),
    "all_gather_v": lambda c: c.all_gather_v(np.ones(c.rank + 1)),
    "gather_v": lambda c: c.gather_v(np.ones(c.rank + 1)),
    "scatter_v": lambda c: c.scatter_v(np.ones(3), [1, 2], root=1, out=np.empty(c.rank + 1)),
    "all_to_all_v": lambda c: c.all_to_all_v(np.ones(2), [1, 1]),
    "exchange_parts": lambda c: c.exchange_parts([np.ones(1)] * 2, [np.ones(1), np.ones(1)]),
    "exchange_parts_async": lambda c: c.exchange_parts(
        [np.ones(1)] * 2, [np.ones(1), np.ones(1)], async_op=True
    ).wait(),
    "all_reduce by a function": by_function,
    "split": lambda c: c.split(0),
    "duplicate": lambda c: c.duplicate(),
    "mesh": lambda c: c.mesh(dp=2),
    "empty": lambda c: c.empty(3),
    "trace": traced_block,
}

LONG = ("trace",)
STRIDE = 12
"""Lines from one interrupt to the next in the quick tests: between two engine calls there are dozens."""
SOON_S = 0.05
"""In which a rank that waits for nobody has ended: one that is slower is looked at once more, where anything came."""
STRIDES = [STRIDE, pytest.param(1, marks=pytest.mark.slow)]


class Rank0:
    """Rank 0, as rank 1, a thread of the same process, sees it: its group, and whether its call has ended."""

    def __init__(self) -> None:
        self.ended, self.groups = threading.Event(), list[Communicator]()

    def waits_for(self, group: Communicator) -> bool:
        """Whether rank 0 waits in vain: rank 1 has left the call after a message had come to one of them, and the group
        has not failed. `group`: rank 1's."""
        if group._endpoint.failure or self.ended.wait(SOON_S):
            return False
        met = any(each.counters()[:, 1].sum() for each in (group, *self.groups))
        return bool(met) and not self.ended.wait(2)


def at_lines(comm: Communicator, call: Callable[[Communicator], Any], rank_0: Rank0, stride: int) -> list[str]:
    """Interrupts rank 1 at every `stride`-th line of the call in turn, each time in a new group. The lines after which
    rank 0 waited for it in vain."""
    wrong, line, more = [], 1 - stride, True
    where = ""
    with comm.duplicate() as first:
        call(first)  # what a first call loads is no part of it
    while more:
        line += stride
        with comm.duplicate() as group:
            if comm.rank == 1:
                where = interrupted(line, partial(call, group))
                if rank_0.waits_for(group):
                    wrong.append(where)
                group.abort("the test goes on")
            else:
                rank_0.groups[:] = [group]
                with suppress(Poisoned, PeerDied):
                    call(group)
                rank_0.ended.set()
            more = bool(comm.broadcast(np.array([where != "" and not wrong]), 1)[0])
            if comm.rank == 0:
                rank_0.ended.clear()
                rank_0.groups.clear()
            comm.barrier()
    assert line > stride
    return wrong


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in CALLS])
def test_an_interrupt_between_two_engine_calls_fails_the_group(name: str, stride: int) -> None:
    for wrong in spawn(at_lines, 2, CALLS[name], Rank0(), stride, threads=True, timeout_s=20):
        assert wrong == []


def test_an_interrupted_synchronous_send_takes_no_answer_of_the_next_one() -> None:
    def act(comm: Communicator) -> None:
        more, line = True, 0
        while more:
            line, where = line + 1, ""
            with comm.duplicate() as group:
                if comm.rank == 1:
                    where = interrupted(line, lambda: group.issend(np.ones(1), 0))
                    assert group._endpoint.failure or group.issend(np.ones(1), 0).wait(2), where
                    group.abort("the test goes on")
                else:
                    with suppress(Poisoned, PeerDied):
                        for _ in range(2):
                            group.recv(np.empty(1), 1)
                more = bool(comm.broadcast(np.array([where != ""]), 1)[0])
        assert line > 5

    spawn(act, 2, threads=True, timeout_s=20)


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("name", ["load", "save"])
def test_an_interrupt_within_files_fails_the_group(name: str, stride: int, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    call: dict[str, Callable[[Communicator], Any]] = {
        "load": lambda c: storage.load(path, c, memory="private"),
        "save": lambda c: storage.save({"x": np.ones(3)}, path, c),
    }
    spawn(call["save"], 2, threads=True)
    for wrong in spawn(at_lines, 2, call[name], Rank0(), stride, threads=True, timeout_s=20):
        assert wrong == []


def test_ctrl_c_while_rank_0_looks_for_newcomers() -> None:
    def act(comm: Communicator) -> list[str]:
        found = []
        assert comm.grow(at=f"nobody {os.getppid()}") is comm  # loads what it needs
        if comm.rank == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # Python has none where it is started to ignore it
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        for row in (0, 1):
            try:
                if row == 0:
                    comm.grow(1, at=f"nobody {os.getppid()}", timeout_s=3)
                comm.broadcast(np.array([row, 1]), 0)
                found.append("no error")
            except (KeyboardInterrupt, Poisoned) as error:
                found.append(f"{type(error).__name__}: {error}")
            if comm.rank == 0:
                time.sleep(0.1)
        return found

    first, *others = spawn(act, 3)
    assert first[0].startswith("KeyboardInterrupt")
    assert "rank 0 was interrupted in grow" in first[1]
    for found in others:
        assert all("rank 0 was interrupted in grow" in text for text in found)


def test_an_error_that_one_rank_has_in_between_fails_the_group() -> None:
    def act(comm: Communicator) -> str:
        out = np.empty(1) if comm.rank == 1 else None
        with pytest.raises((ValueError, Poisoned)) as raised:
            comm.all_gather_v(np.ones(comm.rank + 1), out=out)
        return f"{raised.type.__name__}: {raised.value}"

    theirs, mine = spawn(act, 2)
    assert mine.startswith("ValueError: out has 1 elements")
    assert theirs.startswith("Poisoned: rank 1 failed in all_gather_v: ValueError: out has 1 elements")


def test_an_error_of_all_leaves_the_group_as_it_was() -> None:
    def act(comm: Communicator) -> bool:
        with pytest.raises(TimedOut), CompositeCall(comm._fail, "test") as call:
            raise call.raised_by_all(TimedOut("nobody came"))
        return works(comm)

    assert all(spawn(act, 2))


def test_a_rank_whose_traced_block_raised_makes_no_call_with_the_others() -> None:
    def act(comm: Communicator) -> str:
        try:
            with comm.trace():
                if comm.rank == 1:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        except Exception as error:  # noqa: BLE001
            return str(error)
        try:
            return str(comm.all_gather(np.ones(1, np.int64)))
        except Exception as error:  # noqa: BLE001
            return str(error)

    for text in spawn(act, 2, timeout_s=20):
        assert "rank 0 called schedule(uint8, count 0)" in text
        assert "rank 1 called all_gather(int64, count 2)" in text
