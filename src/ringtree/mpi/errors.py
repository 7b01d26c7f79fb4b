"""MPI.Exception: ringtree's errors under the name, and with the error classes, that mpi4py's programs know."""

from __future__ import annotations

from collections.abc import Callable
from functools import total_ordering, wraps
from inspect import isfunction
from typing import Any, NoReturn, TypeVar

from ringtree import errors

SUCCESS = 0
(
    ERR_BUFFER, ERR_COUNT, ERR_TYPE, ERR_TAG, ERR_COMM, ERR_RANK, ERR_REQUEST, ERR_ROOT, ERR_GROUP, ERR_OP, ERR_ARG,
    ERR_UNKNOWN, ERR_TRUNCATE, ERR_OTHER, ERR_INTERN, ERR_PENDING, ERR_IN_STATUS, ERR_PROC_FAILED, ERR_REVOKED,
    ERR_INFO_NOKEY, ERR_WIN, ERR_RMA_SYNC, ERR_RMA_RANGE, ERR_LOCKTYPE, ERR_DISP, ERR_INFO, ERR_INFO_KEY,
    ERR_INFO_VALUE, ERR_KEYVAL, ERR_SIZE, ERR_BASE, ERR_ASSERT, ERR_RMA_CONFLICT, ERR_RMA_ATTACH, ERR_RMA_SHARED,
    ERR_RMA_FLAVOR, ERR_TOPOLOGY, ERR_DIMS, ERR_NO_MEM, ERR_ERRHANDLER, ERR_SESSION, ERR_SPAWN, ERR_PORT, ERR_SERVICE,
    ERR_NAME, ERR_PROC_ABORTED, ERR_PROC_FAILED_PENDING, ERR_VALUE_TOO_LARGE, ERR_ABI, ERR_FILE, ERR_BAD_FILE,
    ERR_NO_SUCH_FILE, ERR_FILE_EXISTS, ERR_FILE_IN_USE, ERR_AMODE, ERR_ACCESS, ERR_READ_ONLY, ERR_NO_SPACE, ERR_QUOTA,
    ERR_NOT_SAME, ERR_IO, ERR_UNSUPPORTED_OPERATION, ERR_UNSUPPORTED_DATAREP, ERR_CONVERSION, ERR_DUP_DATAREP,
) = range(1, 66)  # fmt: skip
ERR_LASTCODE = 65

_WORDS = {
    number: name.removeprefix("ERR_").replace("_", " ").lower()
    for name, number in list(globals().items())
    if name.startswith("ERR_") and name != "ERR_LASTCODE"
}
_TEXTS = {
    SUCCESS: "no error",
    ERR_TYPE: "invalid datatype",
    ERR_COMM: "invalid communicator",
    ERR_OP: "invalid operation",
    ERR_ARG: "invalid argument",
    ERR_WIN: "invalid window",
    ERR_DISP: "invalid displacement",
    ERR_RMA_ATTACH: "memory that cannot be attached",
    ERR_RMA_SHARED: "memory that cannot be shared",
    ERR_RMA_FLAVOR: "a call for another kind of window",
    ERR_UNKNOWN: "an error of unknown class",
    ERR_TRUNCATE: "a message is longer than the buffer of its receive",
    ERR_OTHER: "an error that MPI has no class for",
    ERR_INTERN: "an error of the library itself",
    ERR_PENDING: "a request is neither done nor failed",
    ERR_IN_STATUS: "the statuses have the errors",
    ERR_PROC_FAILED: "a process failed",
    ERR_PROC_FAILED_PENDING: "a process failed, which a receive from any rank waits for",
    ERR_PROC_ABORTED: "a process was ended",
    ERR_REVOKED: "the communicator was given up after an error",
    ERR_INFO_NOKEY: "an Info has no such name",
    ERR_RMA_SYNC: "calls of a window that do not belong together",
    ERR_RMA_CONFLICT: "accesses of a window that conflict",
    ERR_RMA_RANGE: "an access outside the window",
    ERR_NO_MEM: "there is no memory",
    ERR_NO_SUCH_FILE: "there is no such file",
}


_CLASS_BY_KIND = {
    errors.PeerDied: ERR_PROC_FAILED,
    errors.Poisoned: ERR_REVOKED,
    errors.Mismatch: ERR_OTHER,
    errors.TimedOut: ERR_OTHER,
}
_CLASS_BY_START = {"root ": ERR_ROOT, "no rank ": ERR_RANK, "tag ": ERR_TAG}
"""MPI's error class by the start of a ValueError's message."""
_UNSUPPORTED = " is not supported; expected one of "
"""The part of a TypeError's message that is of elements, or of an operation on them, which the engine lacks."""


def Get_error_class(errorcode: int) -> int:
    """The class of a code, which is the code itself."""
    if errorcode not in _WORDS and errorcode != SUCCESS:
        raise Exception(ERR_ARG, f"no error code {errorcode}: expected SUCCESS, or a class such as ERR_RANK")
    return errorcode


def Get_error_string(errorcode: int) -> str:
    """A class in words."""
    return _text(Get_error_class(errorcode))


def _text(error_class: int) -> str:
    return _TEXTS.get(error_class) or f"invalid {_WORDS.get(error_class, f'error class {error_class}')}"


@total_ordering
class Exception(RuntimeError):
    """An error with MPI's error class; the text is that of ringtree's own error, which is the `__cause__`."""

    def __init__(self, error_class: int = SUCCESS, text: str = "") -> None:
        super().__init__(error_class, text)
        self.error_class, self.text = error_class, text or _text(error_class)

    def Get_error_class(self) -> int:
        """MPI's error class, such as ERR_TRUNCATE."""
        return self.error_class

    Get_error_code = Get_error_class

    @property
    def error_code(self) -> int:
        """The error class: there are no codes but classes."""
        return self.error_class

    def Get_error_string(self) -> str:
        """The error's text."""
        return self.text

    error_string = property(Get_error_string)

    def __repr__(self) -> str:
        return f"MPI.Exception({self.error_class})"

    def __str__(self) -> str:
        return self.text

    def __int__(self) -> int:
        return self.error_class

    def __bool__(self) -> bool:
        return self.error_class != SUCCESS

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Exception | int):
            return int(self) == int(other)
        return NotImplemented

    def __lt__(self, other: object) -> bool:
        if isinstance(other, Exception | int):
            return int(self) < int(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.error_class)


def as_exception(error: BaseException) -> Exception | None:
    """`error` as MPI.Exception; None where mpi4py, too, raises Python's own kind."""
    if isinstance(error, ValueError):
        text = str(error)
        found = next((c for start, c in _CLASS_BY_START.items() if text.startswith(start)), None)
        return None if found is None else Exception(found, text)
    if isinstance(error, TypeError):
        unsupported = _UNSUPPORTED in (text := str(error))
        return Exception(ERR_TYPE if text.startswith("element type ") else ERR_OP, text) if unsupported else None
    if isinstance(error, errors.Mismatch) and "at most" in str(error):
        return Exception(ERR_TRUNCATE, f"message truncated: {error}")
    return next((Exception(c, str(error)) for kind, c in _CLASS_BY_KIND.items() if isinstance(error, kind)), None)


KINDS = (ValueError, TypeError, *_CLASS_BY_KIND)
"""The errors that may be MPI's."""

_direct: set[object] = set()
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)


def reraise(error: BaseException) -> NoReturn:
    """Raises `error` as MPI's where MPI has a class for it."""
    known = as_exception(error)
    if known is None:
        raise error
    raise known from error


def direct(function: _Function) -> _Function:
    """Marks a method that calls `reraise` by itself: one call less, where 0.05 us shows."""
    _direct.add(function)
    return function


def translated(function: _Function) -> _Function:
    """`function`, whose errors are MPI.Exception where MPI has a class for them."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except KINDS as error:
            reraise(error)

    return call  # type: ignore[return-value]


def translating(family: _Class) -> _Class:
    """The class, with all public methods it defines translated, but for those that are `direct`."""
    for name, member in list(vars(family).items()):
        if isfunction(member) and not name.startswith("_") and member not in _direct:
            setattr(family, name, translated(member))
    return family
