"""Handles of calls under way: collectives and messages, alone and several together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from ringtree.errors import TimedOut
from ringtree.runtime.communicator.arguments import described, listed, seconds

if TYPE_CHECKING:
    from ringtree.runtime.communicator.messages.messages import PendingMessages
    from ringtree.runtime.engines.protocols import Messages, Programs

_SLICE_S = 0.0005  # how long the others go unlooked at while one is waited for


class Work:
    """The handle that `async_op=True` returns. Until it is done, neither read its output nor write its input."""

    __slots__ = ("_endpoint", "_result", "_ticket")

    def __init__(self, endpoint: Programs, ticket: int, result: Any) -> None:
        self._endpoint, self._ticket, self._result = endpoint, ticket, result

    def done(self) -> bool:
        """Whether the call has ended, well or badly; never waits."""
        return self._endpoint.done(self._ticket)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the call ends; False when `timeout` seconds (None: without end) passed first. Raises the call's
        error."""
        return self._endpoint.wait(self._ticket, -1.0 if timeout is None else seconds(timeout))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is this process's own and cannot be copied or pickled; its result() can"
        )

    def result(self) -> Any:
        """Waits, and returns what the call would have returned."""
        self.wait()
        return self._result


class Ended(Work):
    """The handle of a call that had ended, without an error, when it returned."""

    __slots__ = ()

    def __init__(self, result: Any) -> None:
        self._result = result

    def done(self) -> bool:
        """True."""
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """True at once."""
        return timeout is None or seconds(timeout) >= 0


class Message(Work):
    """The handle that `isend` and `irecv` return. Until it is done, leave its array alone. The array is kept until
    then, even without a reference to the Message: a dropped receive still takes its message.

    Without a timeout `wait` raises TimedOut after the group's; the message stays under way.
    """

    __slots__ = ("_mail", "_messages", "_status")

    def __init__(self, mail: PendingMessages, messages: Messages, number: int, result: Any) -> None:
        self._messages, self._ticket, self._result = messages, number, result
        self._mail = mail
        self._status: tuple[int, int, int] | None = None

    def done(self) -> bool:
        """Whether the message has arrived, or has left; never waits."""
        if self._status is not None:
            return True
        if not self._messages.test(self._ticket):
            return False
        with suppress(ValueError):  # it has ended badly: the group failed
            self._end()
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the message is done; False when `timeout` seconds passed first. Raises the message's error."""
        if self._status is not None:
            return True
        if self._messages.complete([self._ticket], False, -1.0 if timeout is None else seconds(timeout)) < 0:
            return False
        self._end()
        return True

    def result(self) -> Any:
        """Waits, and returns the result of recv; None for a send."""
        self.wait()
        return self._result(self.nbytes) if callable(self._result) else self._result

    @property
    def source(self) -> int:
        """The sender's rank. ValueError: while the message is under way."""
        return self._known()[0]

    @property
    def tag(self) -> int:
        """The message's tag. ValueError: while the message is under way."""
        return self._known()[1]

    @property
    def nbytes(self) -> int:
        """The message's bytes. ValueError: while the message is under way."""
        return self._known()[2]

    def _end(self) -> None:
        self._status = self._messages.status(self._ticket)
        self._mail.done(self._ticket)

    def _known(self) -> tuple[int, int, int]:
        if self._status is None and not (self.done() and self._status):
            raise ValueError("this message is still under way: wait() for it before asking what it is")
        assert self._status is not None
        return self._status

    def __del__(self) -> None:
        self._mail.forget(self._ticket)


class Together(Work):
    """Works begun together, which have ended when all of them have."""

    __slots__ = ("_works",)

    def __init__(self, works: Sequence[Work], result: Any) -> None:
        self._works, self._result = works, result

    def done(self) -> bool:
        """Whether all works are done; never waits."""
        return all(work.done() for work in self._works)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits as a Work does; without a timeout raises TimedOut after the group's."""
        return not self._works or wait_all(self._works, timeout)


def wait_all(works: Iterable[Work], timeout: float | None = None) -> bool:
    """Waits for all works, collectives and messages alike; False when `timeout` seconds passed first. Raises the error
    of the first that failed. TypeError, ValueError: if the list has anything else, or nothing."""
    until = None if timeout is None else time.monotonic() + seconds(timeout)
    return all(work.wait(None if until is None else max(until - time.monotonic(), 0.0)) for work in _listed(works))


def wait_any(works: Iterable[Work], timeout: float | None = None) -> int:
    """Waits for one of the works and returns its position in the list: the first that has ended. Raises that one's
    error; TimedOut when `timeout` seconds passed first, after which the works go on; TypeError or ValueError as
    wait_all. A work that has ended is returned again if it stays in the list."""
    all_works = _listed(works)
    begun = [work for work in all_works if isinstance(work, Message) and work._status is None]
    if len(begun) == len(all_works) and len({id(message._messages) for message in begun}) == 1:
        numbers = [message._ticket for message in begun]
        found = begun[0]._messages.complete(numbers, True, -1.0 if timeout is None else seconds(timeout))
    else:
        until = None if timeout is None else time.monotonic() + seconds(timeout)
        while (found := next((i for i, work in enumerate(all_works) if work.done()), -1)) < 0:
            left_s = _SLICE_S if until is None else min(until - time.monotonic(), _SLICE_S)
            if left_s <= 0:
                break
            all_works[0].wait(left_s)
    if found < 0:
        raise TimedOut(f"none of {len(all_works)} works and messages ended within {timeout:g} s")
    all_works[found].wait()
    return found


def _listed(works: Iterable[Work]) -> list[Work]:
    if isinstance(works, Work):
        raise TypeError(f"works is {described(works)}; expected a list of such, or its own wait()")
    found = listed(works, "works", "Works")
    if not found:
        raise ValueError("nothing to wait for: expected at least one Work or Message")
    for work in found:
        if not isinstance(work, Work):
            raise TypeError(f"cannot wait for {type(work).__name__}: expected a Work or a Message")
    return found
