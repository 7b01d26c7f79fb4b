"""Ranks as threads of this process: for the reference engine, for sanitizers, and where a fork is not safe."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue

from ringtree.runtime.communicator import lifetime
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.launch.crew import Outcome, Pin, Task
from ringtree.runtime.launch.spawn_processes import attempt, failure, pin_to_core


class Threads:
    """See spawn.Crew. A thread cannot be ended from outside: one that does not return is left behind (as a daemon)."""

    def __init__(self, engine: str, parameters: list[GroupParameters], first: Task | None, pin: Pin) -> None:
        self._engine, self._first, self._pin = engine, first, pin
        self._tasks: list[SimpleQueue[Task | None]] = [SimpleQueue() for _ in parameters]
        self._outcomes: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._live, args=(t,), name=f"rank {t.rank}", daemon=True) for t in parameters
        ]
        for thread in self._threads:
            thread.start()

    def written(self, task: Task) -> Task:
        """The task as it is."""
        return task

    def start(self, task: Task) -> None:
        """Puts the task into every queue."""
        for queue in self._tasks:
            queue.put(task)

    def finish(self, grace_s: float) -> list[tuple[int, Outcome]]:
        """As Crew.finish."""
        outcomes: list[tuple[int, Outcome]] = []
        deadline: float | None = None
        while len(outcomes) < len(self._threads):
            try:
                left_s = None if deadline is None else max(deadline - time.monotonic(), 0)
                outcomes.append(self._outcomes.get(timeout=left_s))
            except Empty:
                break
            if outcomes[-1][1].failed and deadline is None:
                deadline = time.monotonic() + grace_s
        return outcomes

    def stop(self) -> None:
        """Ends the threads, each after its current task."""
        for queue in self._tasks:
            queue.put(None)
        for thread in self._threads:
            thread.join(1.0)

    def _live(self, parameters: GroupParameters) -> None:
        try:
            if self._pin:
                pin_to_core(parameters.rank, parameters.ranks, self._pin)
            communicator = Communicator(self._engine, parameters)
        except BaseException as error:  # noqa: BLE001  # of any kind: the caller of spawn raises it
            self._outcomes.put((parameters.rank, failure(error)))
            return
        if self._first is not None:
            outcome = attempt(communicator, self._first)
            lifetime.tell_cause(communicator, outcome.cause)
            closing = attempt(communicator, (Communicator.close, ()))
            self._outcomes.put((parameters.rank, closing if closing.failed and not outcome.failed else outcome))
            return
        with communicator:
            while (task := self._tasks[parameters.rank].get()) is not None:
                outcome = attempt(communicator, task)
                self._outcomes.put((parameters.rank, outcome))
                if outcome.failed:
                    lifetime.tell_cause(communicator, outcome.cause)
                    return
