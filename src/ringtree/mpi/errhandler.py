"""Handles of MPI's error handlers: errors are raised here, as with ERRORS_RETURN in mpi4py."""

from __future__ import annotations

from typing import Final, Self

from ringtree.mpi.missing import MpiObject
from ringtree.runtime.communicator.communicator import Communicator

_NULL = "ERRHANDLER_NULL"


class Errhandler(MpiObject):
    """A handle of an error handler; `Errhandler()` is ERRHANDLER_NULL. Handles of one handler are equal."""

    def __init__(self, errhandler: Errhandler | None = None) -> None:
        self._name: str = _NULL if errhandler is None else errhandler._name

    @classmethod
    def _named(cls, name: str) -> Self:
        made = cls()
        made._name = name
        return made

    def Free(self) -> None:
        """Makes this handle ERRHANDLER_NULL; the handler stays, as do MPI's own constants."""
        if self not in HANDLERS or all(self is not kept for kept in HANDLERS):
            self._name = _NULL

    free = Free

    def __bool__(self) -> bool:
        return self._name != _NULL

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Errhandler) and self._name == other._name

    __hash__ = None  # type: ignore[assignment]  # Free changes it

    def __repr__(self) -> str:
        return f"MPI.{self._name}"


ERRHANDLER_NULL: Final = Errhandler()
ERRORS_RETURN: Final = Errhandler._named("ERRORS_RETURN")
ERRORS_ABORT: Final = Errhandler._named("ERRORS_ABORT")
ERRORS_ARE_FATAL: Final = Errhandler._named("ERRORS_ARE_FATAL")
HANDLERS: Final = (ERRORS_RETURN, ERRORS_ABORT, ERRORS_ARE_FATAL)


class ErrorRaiser:
    """A communicator or a window, whose errors are raised."""

    _comm: Communicator

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Takes ERRORS_RETURN, with which mpi4py raises errors. NotImplementedError for handlers that end the job."""
        if not isinstance(errhandler, Errhandler):
            raise TypeError(f"got {type(errhandler).__name__}; expected an Errhandler")
        self._comm  # noqa: B018  # raises for a handle that is none
        if errhandler != ERRORS_RETURN:
            remedy = "an error that is not caught ends the rank, and Comm.Abort() ends all of them"
            found = f"{type(self).__name__}.Set_errhandler({errhandler!r})"
            raise NotImplementedError(f"{found}: errors are raised; expected MPI.ERRORS_RETURN: {remedy}")

    def Get_errhandler(self) -> Errhandler:
        """A handle of ERRORS_RETURN."""
        self._comm  # noqa: B018
        return Errhandler(ERRORS_RETURN)
