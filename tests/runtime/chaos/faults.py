"""How each fault is brought about, in the process of the culprit."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ringtree.runtime.bootstrap.local.abstract_socket import AbstractSocket
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.chaos.board import Board
from tests.runtime.chaos.case import OF_A_HOST

EXIT_CODE = 9
REASON = "chaos"


class OwnError(Exception):
    """The exception that the culprit's program raises."""


def _kill(_: Communicator) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(_: Communicator) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _exit(_: Communicator) -> None:
    os._exit(EXIT_CODE)


def _leave_python(_: Communicator) -> None:
    sys.exit(EXIT_CODE)


def _raise(_: Communicator) -> None:
    raise OwnError("the program's own error")


def _close(group: Communicator) -> None:
    group.close()


def _abort(group: Communicator) -> None:
    group.abort(REASON)


FAULTS: dict[str, Callable[[Communicator], None]] = {
    "kill": _kill,
    "exit": _exit,
    "sys.exit": _leave_python,
    "exception": _raise,
    "stop": _stop,
    "pause": _stop,  # who watches the ranks lets it go on
    "close": _close,
    "abort": _abort,
}


def bring_about(fault: str, group: Communicator, board: Board, where: str, delay_s: float | None) -> None:
    """Brings a fault about: now, or by another thread a moment later."""

    if fault in OF_A_HOST:
        board.ask(f"{fault} {where}")
        return

    def act() -> None:
        if delay_s is not None:
            time.sleep(delay_s)
        board.fault(f"{fault} {where}")
        FAULTS[fault](group)

    if delay_s is None:
        act()
    else:
        threading.Thread(target=act, name="fault").start()


class Doomed(AbstractSocket):
    """The bootstrap of a culprit whose fault happens before it has met anyone."""

    def __init__(self, fault: str, board: Board) -> None:
        self._fault, self._board = fault, board

    def share(self, *_: Any, **__: Any) -> Any:
        self._board.fault(f"{self._fault} before all have met")
        FAULTS[self._fault](None)  # type: ignore[arg-type]  # there is no group yet
        raise AssertionError(f"{self._fault} returned")

    exchange = hosts = share
