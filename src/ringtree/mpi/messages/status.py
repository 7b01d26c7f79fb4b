"""Status: a message's source, tag and length."""

from __future__ import annotations

from typing import Any

from ringtree.mpi.constants import ANY_SOURCE, ANY_TAG, PROC_NULL, UNDEFINED
from ringtree.mpi.errors import ERR_TYPE, SUCCESS, Exception
from ringtree.mpi.missing import MpiObject
from ringtree.mpi.types.datatype import Datatype
from ringtree.mpi.types.elements import bytes_of, elements_in

_BYTE = Datatype.fromcode("BYTE")


class Status(MpiObject):
    """A message's source, tag and length, filled by the call it is passed to; an empty one has ANY_SOURCE, ANY_TAG, no
    bytes."""

    def __init__(self, status: Status | None = None) -> None:
        if not (status is None or isinstance(status, Status)):
            raise TypeError(f"got {type(status).__name__}; expected a Status")
        self.source, self.tag, self.error, self.nbytes = ANY_SOURCE, ANY_TAG, SUCCESS, 0
        self.cancelled = False
        if status is not None:
            self.__dict__.update(status.__dict__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Status) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def fill(self, message: Any) -> None:
        """Fills the status from a message that has `source`, `tag` and `nbytes`; from anything else, as an empty
        one."""
        self.source = getattr(message, "source", ANY_SOURCE)
        self.tag = getattr(message, "tag", ANY_TAG)
        self.nbytes = getattr(message, "nbytes", 0)
        self.error, self.cancelled = SUCCESS, False

    def Get_source(self) -> int:
        """The sender's rank; ANY_SOURCE in an empty status."""
        return self.source

    def Get_tag(self) -> int:
        """The message's tag; ANY_TAG in an empty status."""
        return self.tag

    def Get_error(self) -> int:
        """The error class, SUCCESS where nothing failed."""
        return self.error

    def Get_count(self, datatype: Datatype | str = _BYTE) -> int:
        """Elements of that type; UNDEFINED where the bytes are no whole number of them."""
        size = _type(datatype).size
        if not self.nbytes:
            return 0
        return UNDEFINED if not size or self.nbytes % size else self.nbytes // size

    def Get_elements(self, datatype: Datatype | str = _BYTE) -> int:
        """Basic elements, of which a type is made, also where the last element of that type is not whole; UNDEFINED
        where the last basic one is not."""
        found = elements_in(_type(datatype), self.nbytes)
        return UNDEFINED if found is None else found

    def Set_elements(self, datatype: Datatype | str, count: int) -> None:
        """Sets the message's length to `count` basic elements, of which this type is made."""
        self.nbytes = bytes_of(_type(datatype), count)

    def Is_cancelled(self) -> bool:
        """The value that `Set_cancelled` set; no call of this library cancels."""
        return self.cancelled

    def Set_cancelled(self, flag: bool) -> None:
        """Sets what `Is_cancelled` returns."""
        self.cancelled = bool(flag)

    def Set_source(self, source: int) -> None:
        """Sets the sender's rank."""
        self.source = source

    def Set_tag(self, tag: int) -> None:
        """Sets the tag."""
        self.tag = tag

    def Set_error(self, error: int) -> None:
        """Sets the error class."""
        self.error = error

    @property
    def count(self) -> int:
        """The message's length in bytes."""
        return self.nbytes

    @count.setter
    def count(self, nbytes: int) -> None:
        self.nbytes = nbytes


def _type(datatype: Datatype | str) -> Datatype:
    found = Datatype.fromcode(datatype) if isinstance(datatype, str) else datatype
    if not found:
        raise Exception(ERR_TYPE, "DATATYPE_NULL has no elements to count; expected a datatype")
    return found


class Nothing:
    """The status of a call with PROC_NULL: done at once, without a source."""

    source, tag, nbytes = PROC_NULL, ANY_TAG, 0

    def done(self) -> bool:
        """True."""
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Returns True at once, for every `timeout`."""
        return True


NOTHING = Nothing()
