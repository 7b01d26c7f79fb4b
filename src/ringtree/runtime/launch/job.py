"""The course of a job, wherever its ranks run: which failed first, how long the others may report, who is stopped."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable

GRACE_S = 5.0
"""Seconds that survivors have to report when a rank has died, and all ranks after Ctrl-C, before they are stopped."""
STOP_S = 2.0
"""Seconds from SIGTERM to SIGKILL."""
REPEAT_S = 0.5
"""Seconds in which the same signal is the same request: `timeout` signals its child, and then the child's group."""


class JobCourse:
    """The ranks that run, and how the others ended. `send`: passes a signal to all ranks that run. `place`: words that
    follow a rank's number, as " on b". `elastic`: a failure ends no other rank, and the job where no rank succeeds."""

    def __init__(
        self, send: Callable[[int], None], place: Callable[[int], str] = lambda rank: "", *, elastic: bool = False
    ) -> None:
        self.running: set[int] = set()
        self.signal: int | None = None
        self.failures: list[tuple[str, int]] = []
        """The failures in order of time: words and exit code."""
        self.stopped: list[int] = []
        self.left: list[int] = []
        """The ranks that run on, as nothing can end them."""
        self._send, self._place, self._elastic = send, place, elastic
        self._succeeded: list[int] = []
        self._deadline: float | None = None
        self._signal_s = 0.0
        self._hurried = self._overdue = False
        self._escalation = iter((signal.SIGTERM, signal.SIGKILL))

    def ended(self, rank: int, code: int) -> None:
        """Notes a rank's end, with its exit code (negative: a signal's number)."""
        self.running.discard(rank)
        if not code:
            self._succeeded.append(rank)
        if code and rank not in self.stopped:
            self.failed(f"rank {rank}{self._place(rank)} {ending(code)}", code if code > 0 else 128 - code)

    def failed(self, text: str, code: int, ranks: Iterable[int] = ()) -> None:
        """Notes a failure, by which `ranks` are gone, too: from then on the others have GRACE_S."""
        self.running.difference_update(ranks)
        self.failures.append((text, code))
        if self._deadline is None and not self._elastic:
            self._deadline = time.monotonic() + GRACE_S

    def interrupt(self, number: int) -> None:
        """Passes on Ctrl-C, or a request to end; at a second one, nothing is waited for any longer."""
        if self.signal is None:
            self.signal, self._signal_s = number, time.monotonic()
            self._send(number)
            self._deadline = time.monotonic() + GRACE_S
        elif number != self.signal or time.monotonic() > self._signal_s + REPEAT_S:
            self._deadline, self._hurried = 0.0, True

    @property
    def patience_s(self) -> float | None:
        """Seconds until `check` has something to do; None where nothing ends the wait."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0)

    def check(self) -> None:
        """Stops the ranks that still run when their time is up: by SIGTERM, then SIGKILL."""
        if self._deadline is None or time.monotonic() < self._deadline:
            return
        self._overdue = True
        self.stopped += [rank for rank in sorted(self.running) if rank not in self.stopped]
        self._send(next(self._escalation, signal.SIGKILL))
        self._deadline = time.monotonic() + STOP_S

    def leave(self, ranks: Iterable[int]) -> None:
        """Gives up the ranks of these that still run."""
        self.left += sorted(self.running.intersection(ranks))
        self.running.difference_update(self.left)
        self.stopped = [rank for rank in self.stopped if rank not in self.left]

    def gives_up(self, stalled_s: float) -> bool:
        """Whether output is no longer kept for a reader who has taken nothing for `stalled_s`: time is up, and after a
        failure, unlike a signal, whoever reads on gets all."""
        return self._overdue and (self.signal is not None or stalled_s > GRACE_S)

    def report(self, write: Callable[[str], None]) -> int:
        """Writes which rank failed first and how, and which ranks had to be stopped; returns the exit code."""
        if self.signal is not None:
            if self.stopped:
                late = f"within {GRACE_S:g} s" if not self._hurried else "before the second signal"
                write(f"stopped {named(self.stopped)}, which did not end {late}")
            if self.left:
                write(_left(self.left))
            return 128 + self.signal
        if not self.failures:
            return 0
        times = Counter(text for text, _ in self.failures)
        text, *later = (f"{text} {count} times" if count > 1 else text for text, count in times.items())
        code = self.failures[0][1]
        if later:
            text += "; after that " + ", ".join(later)
        if self.stopped:
            text += f"; stopped {named(self.stopped)} after {GRACE_S:g} s"
        if self.left:
            text += f"; {_left(self.left)}"
        if self._elastic and self._succeeded:
            write(f"{text}; {named(sorted(self._succeeded))} went on to the end")
            return 0
        write(text)
        return code


def named(ranks: list[int]) -> str:
    """`rank 3`, or `ranks 1, 3`."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _left(ranks: list[int]) -> str:
    return f"{named(ranks)} could not be stopped: Operation not permitted, expected processes of this user's"


def ending(code: int) -> str:
    """The end of a process in words, by its exit code (negative: a signal's number)."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
