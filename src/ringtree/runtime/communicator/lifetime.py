"""The end of a communicator: closed by its owner, left behind at exit, or inherited by a forked child."""

from __future__ import annotations

import atexit
import os
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

from ringtree.runtime.linux import after_fork_in_child

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator

_open: weakref.WeakSet[Communicator] = weakref.WeakSet()
_abandoned: list[Any] = []


class Gone:
    """Replaces an endpoint; every access raises."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(self._message)

    def __call__(self, *_: object) -> NoReturn:
        """Raises as every attribute does."""
        raise RuntimeError(self._message)


def watch(communicator: Communicator) -> None:
    """Closes the communicator at exit if it is still open, and guards it from being used in a forked child."""
    _open.add(communicator)


def forget(communicator: Communicator) -> None:
    """Takes the communicator off the list of those closed at exit."""
    _open.discard(communicator)


def _after_fork_in_child() -> None:
    """An endpoint belongs to the process that opened it. The child keeps it untouched: to free it would be to leave."""
    for communicator in list(_open):
        endpoint = communicator._replace_endpoint(
            Gone(
                f"process {os.getpid()} is a fork of rank {communicator.rank} and cannot use its communicator; "
                "call ringtree.init() where the ranks are started, or use the communicator before fork only"
            )
        )
        _abandoned.append(endpoint)
    _open.clear()


def close_all() -> None:
    """Closes every communicator of this process that is still open, as is done at exit."""
    with ExitStack() as stack:  # all of them, even if one raises
        for communicator in list(_open):
            stack.callback(communicator.close)


after_fork_in_child(_after_fork_in_child)
atexit.register(close_all)
