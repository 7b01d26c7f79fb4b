"""SIGINT, SIGTERM and SIGHUP, and the signals that are the ranks' own business, as events of a loop."""

from __future__ import annotations

import selectors
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a batch system sends a job, and its ranks may heed: they go on to them, as mpirun has it."""


@contextmanager
def interrupts(
    call: Callable[[int], None], selector: selectors.BaseSelector, more: Sequence[signal.Signals] = ()
) -> Iterator[None]:
    """Calls `call` for SIGINT, SIGTERM, SIGHUP and `more`, also while the selector waits; in the main thread only.

    One that our starter has us ignore (nohup, a shell's background job) stays ignored, by us and by the ranks.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        call(number)

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        caught = [n for n in (*ending, *more) if signal.getsignal(n) not in (signal.SIG_IGN, None)]
        before = {n: signal.signal(n, handle) for n in caught}
        wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        selector.register(ours, selectors.EVENT_READ, lambda: ours.recv(64))
        try:
            yield
        finally:
            selector.unregister(ours)
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
