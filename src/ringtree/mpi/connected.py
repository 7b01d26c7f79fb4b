"""What every family of a Comm's methods builds on: the communicator behind it, and how calls are started."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ringtree.mpi.request import Request
from ringtree.runtime.communicator.communicator import Communicator


class Connected:
    """`_comm` is the Communicator that all calls go to."""

    _comm: Communicator


def started(blocking: Callable[..., Any]) -> Callable[..., Request]:
    """The form of a collective that returns a Request."""

    @wraps(blocking)
    def start(*args: Any, **kwargs: Any) -> Request:
        made = blocking(*args, async_op=True, **kwargs)
        return made if isinstance(made, Request) else Request(made)

    start.__name__ = start.__qualname__ = f"I{blocking.__name__.lower()}"
    return start
