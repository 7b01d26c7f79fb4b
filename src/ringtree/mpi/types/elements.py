"""Basic elements of messages: MPI's count of what arrived, where a type is made of others.

A message has the elements of a type packed, one after another. Only a struct and a pair have elements of several types.
"""

from __future__ import annotations

from ringtree.mpi.types.datatype import Datatype


def elements_in(kind: Datatype, nbytes: int) -> int | None:
    """Basic elements in the first `nbytes` of a message of this type; None where the last is not whole."""
    whole, rest = divmod(nbytes, kind.size) if kind.size else (0, nbytes)
    count = whole * elements_of(kind)
    for number, part in _parts(kind):
        size = min(rest, number * part.size)
        found = elements_in(part, size)
        if found is None:
            return None
        count, rest = count + found, rest - size
    return None if rest else count


def elements_of(kind: Datatype) -> int:
    """Basic elements of one element of this type."""
    parts = _parts(kind)
    return sum(number * elements_of(part) for number, part in parts) if parts else 1


def bytes_of(kind: Datatype, count: int) -> int:
    """Bytes of a message of the first `count` basic elements."""
    parts, each = _parts(kind), elements_of(kind)
    whole, rest = divmod(count, each) if each else (0, 0)
    nbytes = whole * kind.size
    for number, part in parts:
        some = min(rest, number * elements_of(part))
        nbytes, rest = nbytes + bytes_of(part, some), rest - some
    return nbytes


def _parts(kind: Datatype) -> list[tuple[int, Datatype]]:
    """The types that one element is made of, in the order of a message, each with its number; none of a basic one."""
    base, combiner, given = kind.decode()
    if combiner == "STRUCT":
        return [*zip(given["blocklengths"], given["datatypes"], strict=True)]
    if combiner != "NAMED":
        return [(kind.size // base.size if base.size else 0, base)]
    return [(1, Datatype.of(field[0])) for field in (kind.dtype.fields or {}).values()]
