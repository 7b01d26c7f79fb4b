"""Rank 0 announces itself in a store that the ranks share: torch.distributed's, or any object with `set` and `get`."""

from __future__ import annotations

import time
from datetime import timedelta
from types import FrameType
from typing import Any, Protocol

from ringtree.runtime.bootstrap.network.contact import Contact

READ_S = 1.0


class Store(Protocol):
    """The methods that a store must have. `get` may wait for a key, or return None or raise LookupError without it."""

    def set(self, key: str, value: str, /) -> Any:
        """Makes `value` the key's."""
        ...

    def get(self, key: str, /) -> Any:
        """The key's value, as text or bytes."""
        ...


class StoreBoard:
    """A Board. `job`, `secret`: as FileBoard's."""

    given: Contact | None = None
    several = True
    where = "the store"

    def __init__(self, store: Store, job: str, secret: bytes) -> None:
        self._store, self.secret, self._key = store, secret, f"ringtree/{job}/rank 0"

    def announce(self, contact: Contact) -> None:
        """Sets the key."""
        self._store.set(self._key, contact.text())

    def give_up(self, why: str) -> None:
        """Nothing: what is in the store may outlive the job."""

    def read(self, timeout_s: float) -> Contact | None:
        """The contact under the key. A store with `wait`, as torch's, is asked to wait for READ_S at most."""
        wait: Any = getattr(self._store, "wait", None)
        until_s = time.monotonic() + min(timeout_s, READ_S)
        try:
            if wait is not None:
                wait([self._key], timedelta(seconds=min(timeout_s, READ_S)))
            return Contact.of(self._store.get(self._key) or "")
        except (LookupError, ValueError, TimeoutError) as error:
            if of_handler(error):
                raise
            return None
        except RuntimeError as error:
            if of_handler(error) or time.monotonic() < until_s - 0.01:
                raise  # not the time: the store itself
            return None

    def withdraw(self) -> None:
        """Empties the key: the secret does not stay."""
        self._store.set(self._key, "")


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
