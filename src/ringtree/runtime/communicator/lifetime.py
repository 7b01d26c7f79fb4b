"""The end of a communicator: closed by its owner, left behind at exit or by an exception that nobody caught, or
inherited by a forked child."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut
from ringtree.runtime.linux import after_fork_in_child

if TYPE_CHECKING:
    import threading

    from ringtree.runtime.communicator.communicator import Communicator

_open: weakref.WeakSet[Communicator] = weakref.WeakSet()
_abandoned: list[Any] = []
_hooked_by = 0
"""The process that has set the hooks below."""

FAILURES = (PeerDied, Mismatch, Poisoned, TimedOut)
"""The errors between ranks."""
MOST_CHARACTERS = 200
"""The length of an exception's text in the errors of peers."""


class Gone:
    """Replaces an endpoint; every access raises, but for that of who closes what is closed."""

    is_within_call = False

    def __init__(self, message: str) -> None:
        self.message = message

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(self.message)

    def __call__(self, *_: object) -> NoReturn:
        """Raises as every attribute does."""
        raise RuntimeError(self.message)


def watch(communicator: Communicator) -> None:
    """Closes the communicator at exit if it is still open, and guards it from being used in a forked child."""
    _open.add(communicator)
    if "threading" in sys.modules:
        set_hooks()


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


def close_all(error: BaseException | None = None) -> None:
    """Closes every communicator of this process that is still open. `error`: why, for the errors of peers that still
    wait for this rank."""
    _close_all(error, lambda communicator: communicator.close())


def _close_all(error: BaseException | None, close: Callable[[Communicator], None]) -> None:
    with ExitStack() as stack:  # all of them, even if one raises
        for communicator in list(_open):
            tell_cause(communicator, error)
            stack.callback(close, communicator)


def close_at_exit() -> None:
    """The same at the end of the program, because of the exception that ended it where one did. Python drops what is
    raised then and ends with 0: what is wrong is a line on stderr, and the process ends with 1."""
    error, lines = _uncaught(), list[str]()

    def close(communicator: Communicator) -> None:
        try:
            communicator.close()
        except FAILURES as failure:
            lines.append(str(failure))

    _close_all(error, close)
    if lines and error is None:  # else the program ends by that error, and no other
        with suppress(OSError, ValueError, AttributeError):  # nobody may be left to read it
            sys.stderr.writelines(f"ringtree: {line}\n" for line in dict.fromkeys(lines))
            sys.stderr.flush()
        if native := sys.modules.get("ringtree._native"):
            native.fail_at_exit()


def tell_cause(communicator: Communicator, error: BaseException | None) -> None:
    """Tells the peers of an exception because of which this rank leaves soon: one that waits for it then has it in its
    error. Whatever this process has reported before, or heard of in another group, comes first."""
    communicator._tell_cause(error)


def cause_in_words(error: BaseException | None, name: str) -> str:
    """Returns the words for peers on an exception that ended the work of the rank of that name; "" where it is none."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return ""
    if isinstance(error, FAILURES):
        return str(error)
    if isinstance(error, SystemExit):
        return f"rank {name} ended by sys.exit({error.code!r})"[:MOST_CHARACTERS]
    lines = [""]
    with suppress(Exception):  # a class of the program's may fail to say what it is
        lines = str(error).splitlines() or lines
    return f"rank {name} failed with {type(error).__name__}{': ' * bool(lines[0])}{lines[0][:MOST_CHARACTERS]}"


def _uncaught() -> BaseException | None:
    """The exception that ended the main thread; None at a prompt, which goes on after one."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return None
    found = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return found if isinstance(found, BaseException) else None


def set_hooks() -> None:
    """Sees to it that a thread which ends by an exception keeps nobody waiting, neither peers nor this process's own.
    Not before there is a first call, or threads: their module would take a part of init()'s time."""
    import threading

    global _hooked_by
    if _hooked_by == os.getpid():
        return
    _hooked_by = os.getpid()
    before = threading.excepthook

    def hook(ended: threading.ExceptHookArgs) -> None:
        try:
            before(ended)
        finally:
            _fail_groups_of_this_thread(ended.exc_value)

    threading.excepthook = hook
    # before the interpreter waits for its other threads, which may wait for peers that wait for this process
    with suppress(AttributeError, RuntimeError):  # no such function, or too late
        threading._register_atexit(_main_thread_ended)  # type: ignore[attr-defined]


def _main_thread_ended() -> None:
    if (error := _uncaught()) is not None:
        with suppress(Exception):  # the program ends by that error, and no other
            close_all(error)


def _fail_groups_of_this_thread(error: BaseException | None) -> None:
    """Fails the groups in which this thread, which has ended by an exception, made the last call: it makes no other."""
    import threading

    for communicator in list(_open):
        if communicator._called_here() and cause_in_words(error, communicator._name):
            tell_cause(communicator, error)
            communicator.abort(f"its thread {threading.current_thread().name} ended")


after_fork_in_child(_after_fork_in_child)
atexit.register(close_at_exit)
