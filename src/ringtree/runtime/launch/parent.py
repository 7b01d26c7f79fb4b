"""A process that ends with the one that has forked it, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable

from ringtree.runtime.limits import start_thread

_PR_SET_PDEATHSIG = 1
LOOK_S = 0.5
"""Seconds between two looks for the parent."""


def bound_to_thread(parting: signal.Signals | None = None) -> Callable[[], None]:
    """The function by which a child gets the signal (None: SIGKILL) when this thread ends, and with it at the latest
    this process."""
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(parting or signal.SIGKILL))  # Windows, which spawn refuses, has no SIGKILL
        if os.getppid() != parent:
            os._exit(1)

    return bind


def bound_to_process() -> Callable[[], None]:
    """The function by which a child ends when this process does. Elsewhere than in the main thread the kernel's signal
    would come too early, at that thread's end: a thread of the child's looks for its parent."""
    if threading.current_thread() is threading.main_thread():
        return bound_to_thread()
    parent = os.getpid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os.kill(os.getpid(), signal.SIGKILL)

    def bind() -> None:
        start_thread(look, "watch for the parent's end")

    return bind
