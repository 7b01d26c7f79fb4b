"""A call of the program's that is several calls of the engine's: by an error between two of them a rank would go on
with its next call, while the others are still in this one, and calls that look alike would take each other's data."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut

E = TypeVar("E", bound=Exception)


class CompositeCall:
    """Fails the group where its block ends by an interrupt, or by an error that this rank alone has. Errors that all
    ranks raise leave it as it is: Mismatch, those of the types `alike`, and those given to `raised_by_all`. The checks
    of a rank's own arguments come before the block. `fail`: Member._fail of the group; `several`: whether it is more
    than one call this time."""

    __slots__ = ("_alike", "_by_all", "_fail", "_name", "_several")

    def __init__(
        self,
        fail: Callable[[str], None],
        name: str,
        several: bool = True,
        alike: tuple[type[Exception], ...] = (Mismatch,),
    ) -> None:
        self._fail, self._name, self._several, self._alike = fail, name, several, alike
        self._by_all: Exception | None = None

    def raised_by_all(self, error: E) -> E:
        """Returns the error, which every rank raises."""
        self._by_all = error
        return error

    def __enter__(self) -> CompositeCall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not self._several or error is self._by_all or isinstance(error, self._alike):
            return
        if isinstance(error, Exception):
            named = isinstance(error, (PeerDied, Poisoned, TimedOut))  # their texts begin with a rank
            self._fail(f"failed in {self._name}: " + ("" if named else f"{type(error).__name__}: ") + str(error))
        else:
            self._fail(f"was interrupted in {self._name}")
