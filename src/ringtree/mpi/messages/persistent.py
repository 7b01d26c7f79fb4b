"""Persistent collectives: a call described once and started as often as wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ringtree.mpi.messages.request import Prequest, Request


def persistent(start: Callable[..., Request]) -> Callable[..., Prequest]:
    """The form of a nonblocking call that returns a Prequest, whose every Start is that call. `info` is ignored. Plans
    are remembered by the shape of a call, so a second Start costs what a second call costs."""

    @wraps(start)
    def describe(*args: Any, info: object = None, **kwargs: Any) -> Prequest:
        return Prequest(lambda: start(*args, **kwargs))

    describe.__name__ = describe.__qualname__ = f"{start.__name__[1:].capitalize()}_init"
    describe.__doc__ = f"A persistent request whose every Start is an {start.__name__}."
    return describe
