"""Exceptions that a signal's handler raises amid a bootstrap: a program's alarm may raise TimeoutError, or any other.

A bootstrap waits in poll(), whose outcome is a result, and never in a call that it would stop waiting in by an
exception. So what comes out of a wait is a handler's, and passes unchanged. What is caught around a socket's call is
the kernel's.
"""

from __future__ import annotations

import select
from types import FrameType
from typing import Protocol

MOST_CHARS = 200
"""The length of an interruption's own text that others get."""


class _Descriptor(Protocol):
    def fileno(self) -> int: ...


def of_kernel(error: BaseException) -> bool:
    """Whether the kernel has reported the error, or a look-up of names: these have a number."""
    return isinstance(error, OSError) and error.errno is not None


def of_handler(error: BaseException) -> bool:
    """Whether a signal's handler has raised the error, amid the code of others that raises errors of its kind: Python
    hands a handler the frame that it interrupts, which no other function gets of its caller."""
    step = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        for value in frame.f_locals.values():
            if any(isinstance(one, FrameType) and one is frame.f_back for one in _each(value)):
                return True
        step = step.tb_next
    return False


def _each(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def readable(waiting: _Descriptor, within_s: float) -> bool:
    """Whether something to read, or the other's end, comes within that time. Unlike select.select, for any
    descriptor."""
    poll = select.poll()
    poll.register(waiting, select.POLLIN)
    return bool(poll.poll(max(within_s, 0) * 1e3))


def described(error: BaseException) -> str:
    """` (TimeoutError: its text)`; "" for Ctrl-C."""
    if isinstance(error, KeyboardInterrupt):
        return ""
    line = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
    return f" ({line[:MOST_CHARS]})"
