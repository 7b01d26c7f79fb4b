"""Requests: calls that were started. Once one is seen to be done, it is REQUEST_NULL.

At the end what every family of a Comm's methods builds on: the communicator behind it, and how calls are started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

import numpy as np

import ringtree
from ringtree.mpi.constants import UNDEFINED
from ringtree.mpi.errors import ERR_REQUEST, Exception, translating
from ringtree.mpi.leaving import Groups, close_unused, freed
from ringtree.mpi.messages.polling import Poll
from ringtree.mpi.messages.status import Status
from ringtree.mpi.missing import MpiObject
from ringtree.mpi.types.packed import Packed
from ringtree.runtime.communicator.arguments import described
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.messages.work import Work

if TYPE_CHECKING:
    from typing_extensions import Self

Statuses = list[Status] | None


@translating
class Request(MpiObject):
    """A call under way. `work` is ringtree's Work or Message, None once it is done; `finish` runs then, once, and gives
    the object."""

    __slots__ = ("_finish", "_work")

    def __init__(self, work: Any = None, finish: Callable[[Any], Any] | None = None) -> None:
        self._work: Any = work
        self._finish = finish
        if isinstance(work, Request):
            self._work, self._finish = work._work, work._finish

    def Wait(self, status: Status | None = None) -> bool:
        """Waits until the call is done; always True."""
        self._wait(status)
        return True

    def wait(self, status: Status | None = None) -> Any:
        """Waits until the call is done; returns the received object, None where the call has none."""
        return self._wait(status)

    def Test(self, status: Status | None = None) -> bool:
        """Whether the call is done, without waiting."""
        return self._test(status)[0]

    def test(self, status: Status | None = None) -> tuple[bool, Any]:
        """Whether the call is done, and the received object, without waiting."""
        return self._test(status)

    def Get_status(self, status: Status | None = None) -> bool:
        """Like Test, but the request stays what it is."""
        flag = self._work is None or self._work.done()
        if flag and status is not None:
            status.fill(self._work)
        return flag

    get_status = Get_status

    def Free(self) -> None:
        """Lets go of a request: its call goes on, and its buffer must still be left alone. Exception of ERR_REQUEST:
        for REQUEST_NULL."""
        if not self:
            raise Exception(ERR_REQUEST, "REQUEST_NULL: this request is done, or was freed")
        self._forget()
        close_unused()

    def free(self) -> None:
        """Free of what is not REQUEST_NULL."""
        if self:
            self.Free()

    def Cancel(self) -> None:
        """Raises NotImplementedError: a started call cannot be cancelled."""
        raise NotImplementedError(
            "Request.Cancel: ringtree does not cancel a started call; every wait ends at the group's timeout"
        )

    cancel = Cancel

    def _wait(self, status: Status | None = None) -> Any:
        work = self._work
        if work is None:
            return _nothing(status)
        work.wait()
        return self._end(status)

    def _test(self, status: Status | None = None) -> tuple[bool, Any]:
        if self._work is not None and not self._work.done():
            return False, None
        return True, self._wait(status)

    def _end(self, status: Status | None) -> Any:
        work, finish = self._work, self._finish
        self._forget()
        if status is not None:
            status.fill(work)
        found = None if finish is None else finish(work)
        if freed:
            close_unused()
        return found

    def _forget(self) -> None:
        self._work = self._finish = None

    def __bool__(self) -> bool:
        return self._work is not None

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self is REQUEST_NULL:
            return "REQUEST_NULL"
        if self._work is not None:
            raise ValueError("a request cannot be pickled: its call is this process's own")
        return Request, ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Request) and self._work is other._work

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def Waitall(cls, requests: Sequence[Self], statuses: Statuses = None) -> bool:
        """Waits until all calls are done; always True."""
        cls.waitall(requests, statuses)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Self], statuses: Statuses = None) -> list[Any]:
        """Waits until all calls are done; returns their objects in order."""
        check_requests(requests)
        return [
            request._wait(status) for request, status in zip(requests, _padded(statuses, len(requests)), strict=False)
        ]

    @classmethod
    def Testall(cls, requests: Sequence[Self], statuses: Statuses = None) -> bool:
        """Whether all calls are done, without waiting."""
        return cls.testall(requests, statuses)[0]

    @classmethod
    def testall(cls, requests: Sequence[Self], statuses: Statuses = None) -> tuple[bool, list[Any] | None]:
        """Whether all calls are done, and their objects if so, without waiting."""
        check_requests(requests)
        if not all(request.Get_status() for request in requests):
            return False, None
        return True, cls.waitall(requests, statuses)

    @classmethod
    def Waitany(cls, requests: Sequence[Self], status: Status | None = None) -> int:
        """Waits until one call is done; returns its index."""
        return cls.waitany(requests, status)[0]

    @classmethod
    def waitany(cls, requests: Sequence[Self], status: Status | None = None) -> tuple[int, Any]:
        """Waits until a call is done; returns its position and its object, or UNDEFINED and None where none is
        active."""
        check_requests(requests)
        active = [index for index, request in enumerate(requests) if request._work is not None]
        if not active:
            return UNDEFINED, _nothing(status)
        index = active[_first_done([requests[i]._work for i in active])]
        return index, requests[index]._wait(status)

    @classmethod
    def Testany(cls, requests: Sequence[Self], status: Status | None = None) -> tuple[int, bool]:
        """The index of a call that is done, and whether there is one, without waiting."""
        return cls.testany(requests, status)[:2]

    @classmethod
    def testany(cls, requests: Sequence[Self], status: Status | None = None) -> tuple[int, bool, Any]:
        """The index of a call that is done, whether there is one, and its object, without waiting."""
        check_requests(requests)
        if all(request._work is None for request in requests):
            return UNDEFINED, True, _nothing(status)
        for index, request in enumerate(requests):
            if request._work is not None and request._work.done():
                return index, True, request._wait(status)
        return UNDEFINED, False, None

    @classmethod
    def Waitsome(cls, requests: Sequence[Self], statuses: Statuses = None) -> list[int] | None:
        """Waits until a call at least is done; returns the indices of all that are, None where none is active."""
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def waitsome(cls, requests: Sequence[Self], statuses: Statuses = None) -> tuple[list[int] | None, list[Any] | None]:
        """Waits until a call at least is done; returns the indices of all that are and their objects; None where none
        is active."""
        check_requests(requests)
        active = [request._work for request in requests if request._work is not None]
        if active:
            _first_done(active)
        return cls.testsome(requests, statuses)

    @classmethod
    def Testsome(cls, requests: Sequence[Self], statuses: Statuses = None) -> list[int] | None:
        """The indices of all calls that are done, without waiting; None where none is active."""
        return cls.testsome(requests, statuses)[0]

    @classmethod
    def testsome(cls, requests: Sequence[Self], statuses: Statuses = None) -> tuple[list[int] | None, list[Any] | None]:
        """The indices of all calls that are done and their objects, without waiting; None where none is active."""
        check_requests(requests)
        if all(request._work is None for request in requests):
            return None, None
        works = [request._work for request in requests]
        done = [index for index, work in enumerate(works) if work is not None and work.done()]
        return done, cls.waitall([requests[i] for i in done], statuses)

    @classmethod
    def Get_status_all(cls, requests: Sequence[Self], statuses: Statuses = None) -> bool:
        """Like Testall, but the requests stay what they are."""
        check_requests(requests)
        done = all(request.Get_status() for request in requests)
        if done:
            for request, status in zip(requests, _padded(statuses, len(requests)), strict=False):
                request.Get_status(status)
        return done

    @classmethod
    def Get_status_any(cls, requests: Sequence[Self], status: Status | None = None) -> tuple[int, bool]:
        """Like Testany, but the requests stay what they are."""
        check_requests(requests)
        if all(request._work is None for request in requests):
            return UNDEFINED, _nothing(status) is None
        for index, request in enumerate(requests):
            if request._work is not None and request.Get_status(status):
                return index, True
        return UNDEFINED, False

    @classmethod
    def Get_status_some(cls, requests: Sequence[Self], statuses: Statuses = None) -> list[int] | None:
        """Like Testsome, but the requests stay what they are."""
        check_requests(requests)
        if all(request._work is None for request in requests):
            return None
        done = [index for index, request in enumerate(requests) if request._work is not None and request.Get_status()]
        for index, status in zip(done, _padded(statuses, len(done)), strict=False):
            requests[index].Get_status(status)
        return done

    get_status_all, get_status_any, get_status_some = Get_status_all, Get_status_any, Get_status_some


REQUEST_NULL = Request()


def check_requests(requests: Sequence[Any], kind: type = Request) -> None:
    """TypeError: unless all of the list are requests of that kind."""
    for index, request in enumerate(requests):
        if not isinstance(request, kind):
            raise TypeError(f"requests[{index}] is {described(request)}; expected a {kind.__name__}")


def _first_done(works: Sequence[Any]) -> int:
    """The position of a work that is done, once there is one."""
    if all(isinstance(work, Work) for work in works):
        return ringtree.wait_any(works)
    while True:
        for index, work in enumerate(works):
            if work.done():
                return index
        time.sleep(20e-6)


def _nothing(status: Status | None) -> Any:
    if status is not None:
        status.fill(None)
    return None


def _padded(statuses: Statuses, count: int) -> Sequence[Status | None]:
    """A status for each request; a list that is too short grows."""
    if statuses is None:
        return [None] * count
    missing = [Status() for _ in range(count - len(statuses))]
    if isinstance(statuses, list):
        statuses.extend(missing)
        return statuses
    return [*statuses, *missing]


class Connected:
    """`_comm` is the Communicator that all calls go to."""

    _comm: Communicator

    @cached_property
    def _poll(self) -> Poll:
        """Row of this handle's probes that do not wait."""
        return Poll()

    def _kept(self) -> Self:
        """A handle on the same communicators, which stays when the program frees its own."""
        raise NotImplementedError

    def _groups(self) -> Groups:
        """The communicators that this one consists of, in the order in which they are left."""
        raise NotImplementedError


def started(blocking: Callable[..., Any]) -> Callable[..., Request]:
    """The form of a collective that returns a Request."""

    @wraps(blocking)
    def start(*args: Any, **kwargs: Any) -> Request:
        made = blocking(*args, async_op=True, **kwargs)
        return made if isinstance(made, Request) else Request(made)

    start.__name__ = start.__qualname__ = f"I{blocking.__name__.lower()}"
    return start


def landed(made: Any, room: Any) -> Any:
    """The end of a call that receives to `room`, which unpacks that where it is Packed: at once, or when what was
    started is done. Returns what was started, and None where the call is over, as mpi4py does."""
    if type(room) is not Packed:
        return None if isinstance(made, np.ndarray) else made
    if not isinstance(made, Request | Work):
        room.unpack()
        return None
    before = made._finish if isinstance(made, Request) else None

    def finish(work: Any) -> Any:
        found = None if before is None else before(work)
        room.unpack()
        return found

    return Request(made._work if isinstance(made, Request) else made, finish)
