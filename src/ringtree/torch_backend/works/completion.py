"""Threads that complete futures: each waits for works to end, then runs the callbacks of their futures.

Such a callback may make the group's next call and wait for it, or for its future. So a thread on which others depend
runs no callbacks: one thread leads, which is to wait for the next work to end, and it hands the lead on before it
completes that work's future. Threads come as they are needed, and go when they have been idle.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from ringtree.runtime.communicator import lifetime
from ringtree.runtime.limits import start_thread

IDLE_S = 5.0
"""Seconds that a thread without work stays."""
SLICE_S = 0.02
"""Seconds that a leader waits before it looks for further works to wait for."""

FirstEnded = Callable[[list[Any], float], Any]
"""Waits until one of these works has ended, for at most the given seconds, and returns it; None if none has."""


class Completions:
    """The works of a group, or those of one kind, whose futures are to be completed."""

    def __init__(self, first_ended: FirstEnded) -> None:
        self._first_ended = first_ended
        self._lock = threading.Lock()
        self._waiting: list[Any] = []
        self._led = False

    def add(self, work: Any) -> None:
        """Makes a thread call `work.complete()`, once, after the work has ended."""
        with self._lock:
            self._waiting.append(work)
            if self._led:
                return
            self._led = True
        try:
            _threads.run(self._lead)
        except OSError:
            with self._lock:
                self._waiting.remove(work)
                self._led = False
            raise

    def _lead(self) -> None:
        leads = True
        while leads:
            work = None
            while work is None:
                with self._lock:
                    waiting = list(self._waiting)
                work = self._first_ended(waiting, SLICE_S)
            with self._lock:
                self._waiting.remove(work)
                leads = self._led = bool(self._waiting)
            if leads:
                with suppress(RuntimeError):  # no more threads can be had: this one leads on
                    _threads.run(self._lead)
                    leads = False
            work.complete()


class _Threads:
    """Runs each task in a thread of its own at once, and reuses idle threads."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None ends the thread that gets it
        self._lock = threading.Lock()
        self._busy = 0  # tasks that have not ended
        self._spare = 0  # threads that wait for a task, less the tasks that wait for a thread
        self._dismissed = 0  # how many of the tasks under way are their threads' last
        self._local = threading.local()

    def here(self) -> bool:
        """Whether the caller runs on one of these threads."""
        return hasattr(self._local, "working")

    def run(self, task: Callable[[], None]) -> None:
        with self._lock:
            self._busy += 1
            taken = self._spare > 0
            self._spare -= taken
        if not taken:
            try:
                start_thread(self._work, "futures")  # which takes it from there: its arguments are kept until it ends
            except OSError:
                with self._lock:
                    self._busy -= 1
                raise
        self._tasks.put(task)

    def dismiss(self) -> None:
        """Ends the threads that are idle, and the others after what they do now."""
        with self._lock:
            spare, self._spare, self._dismissed = self._spare, 0, self._busy
        for _ in range(spare):
            self._tasks.put(None)

    def rest(self, timeout_s: float) -> None:
        """Waits until no task is under way, for at most `timeout_s` seconds."""
        until = time.monotonic() + timeout_s
        while self._busy and time.monotonic() < until:
            time.sleep(0.001)

    def _work(self) -> None:
        self._local.working = True
        while (task := self._next()) is not None:
            task()
            del task  # an idle thread keeps nothing of its last task
            with self._lock:
                self._busy -= 1
                if self._dismissed:
                    self._dismissed -= 1
                    return
                self._spare += 1

    def _next(self) -> Callable[[], None] | None:
        while True:
            try:
                return self._tasks.get(timeout=IDLE_S)
            except Empty:
                with self._lock:
                    if self._spare > 0:
                        self._spare -= 1
                        return None


_threads = _Threads()


def run(task: Callable[[], None]) -> None:
    """Runs the task on another thread."""
    _threads.run(task)


def here() -> bool:
    """Whether the caller runs on one of the threads that complete futures."""
    return _threads.here()


def dismiss() -> None:
    """Ends the threads that there are now, when they have nothing to do; others come when there is."""
    _threads.dismiss()


def _at_exit() -> None:
    """No thread may be in the engine when the interpreter ends: killed there, it takes the process along."""
    lifetime.close_at_exit()
    _threads.rest(1.0)


def _after_fork_in_child() -> None:
    """The threads are the parent's."""
    global _threads
    _threads = _Threads()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork_in_child)
