"""Persistent requests: a call described once and started as often as wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

from ringtree.mpi.errors import ERR_REQUEST, Exception, translating
from ringtree.mpi.leaving import close_unused, lease
from ringtree.mpi.messages.request import Connected, Request, check_requests

if TYPE_CHECKING:
    from typing_extensions import Self


class PersistentCall:
    """The call of a persistent request, which its copies share, and the request of its last start. The communicator
    stays open for it when the program frees that."""

    __slots__ = ("_begin", "_comm", "_lease", "begun")

    def __init__(self, comm: Connected, begin: Callable[[Any], Request]) -> None:
        self._comm, self._begin, self._lease = comm._kept(), begin, lease(comm._groups())
        self.begun = Request()

    def start(self) -> None:
        """Begins the call once more."""
        self.begun = self._begin(self._comm)


@translating
class Prequest(Request):
    """A call that can be started again and again: when it is done it only waits for its next Start."""

    __slots__ = ("_call",)

    def __init__(self, request: Prequest | None = None) -> None:
        if not (request is None or isinstance(request, Prequest)):
            raise TypeError(f"got {type(request).__name__}; expected a Prequest")
        self._call: PersistentCall | None = None if request is None else request._call

    @classmethod
    def of(cls, comm: Connected, begin: Callable[[Any], Request]) -> Self:
        """The persistent request whose every Start is `begin(comm)`."""
        made = cls()
        made._call = PersistentCall(comm, begin)
        return made

    @property
    def _work(self) -> Any:
        return None if self._call is None else self._call.begun._work

    @property
    def _finish(self) -> Any:  # type: ignore[override]
        return None if self._call is None else self._call.begun._finish

    def _forget(self) -> None:
        if self._call is not None:
            self._call.begun = Request()

    def Start(self) -> None:
        """Begins the call once more; Exception of ERR_REQUEST after Free, or where its last call was not waited for."""
        if self._call is None:
            raise Exception(ERR_REQUEST, "REQUEST_NULL: this request was freed")
        if self._work is not None:
            raise Exception(ERR_REQUEST, "this request was started already; expected Wait or a Test that is true first")
        self._call.start()

    @classmethod
    def Startall(cls, requests: Sequence[Prequest]) -> None:
        """Begins each of the requests once more, in order."""
        check_requests(requests, Prequest)
        for request in requests:
            request.Start()

    def Free(self) -> None:
        """Makes this REQUEST_NULL, which cannot be started; a call under way goes on. Exception of ERR_REQUEST: for
        REQUEST_NULL."""
        if self._call is None:
            raise Exception(ERR_REQUEST, "REQUEST_NULL: this request was freed")
        self._call = None
        close_unused()

    def __bool__(self) -> bool:
        return self._call is not None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Prequest):
            return self._call is other._call
        return isinstance(other, Request) and not self and not other

    __hash__ = None

    def __reduce__(self) -> NoReturn:
        raise ValueError("a request cannot be pickled: its call is this process's own")


def persistent(start: Callable[..., Request]) -> Callable[..., Prequest]:
    """The form of a nonblocking call that returns a Prequest, whose every Start is that call. `info` is ignored. Plans
    are remembered by the shape of a call, so a second Start costs what a second call costs."""

    @wraps(start)
    def describe(self: Connected, *args: Any, info: object = None, **kwargs: Any) -> Prequest:
        return Prequest.of(self, lambda comm: start(comm, *args, **kwargs))

    describe.__name__ = describe.__qualname__ = f"{start.__name__[1:].capitalize()}_init"
    describe.__doc__ = f"A persistent request whose every Start is an {start.__name__}."
    return describe
