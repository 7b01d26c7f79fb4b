"""Buffer arguments: mpi4py's descriptions of memory, as flat numpy arrays over that memory.

    data                                   an array, or anything with the buffer protocol (or torch's, or DLPack's)
    [data, type]  [data, count]  [data, count, type]  [data, (count, displacement), type]
    [data, counts, displacements, type]  [data, (counts, displacements), type]     one of each per rank

Types are Datatypes or typestrings; counts and displacements are in elements. `None` is no data. (count, displacement)
may be a list, too; (counts, displacements) are a tuple, for a list has the counts of two ranks.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ringtree.mpi.constants import BOTTOM
from ringtree.mpi.errors import ERR_TYPE, Exception
from ringtree.mpi.types.datatype import Datatype, Derived
from ringtree.mpi.types.memory import NOTHING, OCTET, OCTETS, UNFIT, NumpyArray, flat, frombuffer, moves
from ringtree.mpi.types.packed import gathered, gathered_at


def block(spec: Any, blocks: int = 1) -> NumpyArray:
    """The elements that `spec` means, where it gives the number in each of `blocks`; all of them without. ValueError:
    if the buffer is too short."""
    if type(spec) is np.ndarray and spec.flags.c_contiguous and moves(spec.dtype):
        return _whole(spec if spec.ndim == 1 else spec.reshape(-1), blocks)
    data, given, datatype = _parts(spec)
    count, start = _placing(given)
    start = 0 if start is None else operator.index(start)
    if type(datatype) is Derived:
        return _elements(data, count, start, datatype, blocks)
    line = flat(data, None if datatype is None else datatype.dtype)
    if not 0 <= start <= line.size:
        raise ValueError(f"a buffer of {line.size} elements has no element {start} to start at")
    if count is None:
        return _whole(line[start:], blocks)
    count = operator.index(count)
    if count < 0 or start + count * blocks > line.size:
        raise _misfit(line, count, start, blocks)
    return line[start : start + count * blocks]


def _elements(data: Any, count: Any, start: int, datatype: Derived, blocks: int) -> NumpyArray:
    """`block` of a derived type, in the dtype of its elements."""
    first, layout = start * datatype.extent, datatype.layout
    if data is BOTTOM:
        line = gathered_at(first, layout, operator.index(count) * blocks)
    else:
        memory = flat(data, OCTET)
        if count is None:
            if not datatype.extent or (memory.size - first) % (datatype.extent * blocks):
                raise ValueError(f"a buffer of {memory.size} bytes is no whole number of {datatype.extent} bytes each")
            count = (memory.size - first) // (datatype.extent * blocks)
        line = gathered(memory, first, layout, operator.index(count) * blocks)
    return line.view(datatype.dtype) if line.size else np.empty(0, datatype.dtype)


def derived_of(spec: Any) -> Derived | None:
    """The type of a buffer argument where it is a derived one."""
    datatype = _parts(spec)[2]
    return datatype if type(datatype) is Derived else None


def octets(spec: Any, writable: bool = False) -> NumpyArray:
    """The elements that `spec` means as bytes, [bytes] of uint8, as a message has them."""
    line = _plain_octets(spec)
    if line is None:
        line = _as_octets(block(spec))
    return checked(line) if writable else line


def octet_blocks(spec: Any, blocks: int, writable: bool = False) -> NumpyArray:
    """`block` as bytes: [blocks, bytes of one]."""
    line = _plain_octets(spec, blocks)
    if line is None:
        line = _as_octets(block(spec, blocks))
    return checked(line, writable).reshape(blocks, -1)


def checked(line: NumpyArray, writable: bool = True) -> NumpyArray:
    """Returns `line`; raises ValueError where it is read-only and `writable` is asked for."""
    if writable and not line.flags.writeable:
        raise ValueError("a receive buffer is read-only; expected a writable array")
    return line


def placed(spec: Any, ranks: int) -> tuple[NumpyArray, list[int], list[int]]:
    """Uneven blocks: the buffer as a line (of bytes, for a derived type), and each rank's count and displacement in
    elements; without counts all is divided, and the first ranks have one more where that leaves a rest. ValueError: if
    it is too short."""
    data, given, datatype = _parts(spec)
    derived = type(datatype) is Derived
    line = flat(data, OCTET if derived else None if datatype is None else datatype.dtype)
    counts, starts = given if isinstance(given, tuple) else (given, None)
    if counts is None:
        whole = line.size // max(datatype.extent, 1) if datatype is not None and derived else line.size
        least, rest = divmod(whole, ranks)
        counts = [least + (rank < rest) for rank in range(ranks)]
    sizes = _per_rank(counts, ranks, "counts")
    if starts is None:
        displacements = [0, *np.cumsum(sizes).tolist()[:-1]]
    elif isinstance(starts, int | np.integer):
        displacements = [rank * int(starts) for rank in range(ranks)]
    else:
        displacements = _per_rank(starts, ranks, "displacements")
    for size, start in zip(sizes, displacements, strict=True):
        if size < 0 or (size and not derived and not 0 <= start <= line.size - size):
            raise _misfit(line, size, start)
    return line, sizes, displacements


def _misfit(line: NumpyArray, count: int, start: int, blocks: int = 1) -> ValueError:
    if count < 0:
        return ValueError(f"a count of {count} elements; expected 0 or more")
    elements = f"{count} element{'' if count == 1 else 's'}"
    misfit = f"a part of {elements} at displacement {start} does not fit"
    if blocks > 1:
        misfit = f"{blocks} parts of {elements} each, from displacement {start} on, do not fit"
    return ValueError(f"the buffer has {line.size} elements; {misfit}")


def _parts(spec: Any) -> tuple[Any, Any, Datatype | None]:
    """data; a count, a (counts, displacements) or None; the type, if one is given."""
    if not isinstance(spec, list | tuple):
        return spec, None, None
    data, *rest = spec
    datatype = None
    if rest and (isinstance(rest[-1], Datatype | str) or rest[-1] is None):
        given = rest.pop()
        datatype = Datatype.fromcode(given) if isinstance(given, str) else given
        if datatype is not None and not datatype:
            text = "DATATYPE_NULL cannot describe a buffer's elements; expected a datatype"
            raise Exception(ERR_TYPE, text) if rest else ValueError(text)  # as mpi4py does where it infers the count
    if len(rest) > 2:
        raise ValueError("expected a buffer as [data, count, type] or [data, counts, displacements, type]")
    if len(rest) == 2:
        return data, (rest[0], rest[1]), datatype
    counts = rest[0] if rest else None
    if isinstance(counts, list | tuple) and len(counts) == 2 and _is_placing(counts):
        return data, (counts[0], counts[1]), datatype
    return data, counts, datatype


def _placing(given: Any) -> tuple[Any, Any]:
    """The count and displacement of one block, or of blocks that adjoin."""
    if not isinstance(given, tuple | list):
        return given, None
    if len(given) != 2:
        raise ValueError(f"{len(given)} counts of one block; expected a count, or (count, displacement)")
    return given[0], given[1]


def _is_placing(counts: Sequence[Any]) -> bool:
    """Whether two things are (counts, displacements), not the counts of two ranks: a list beside one, or a tuple."""
    return isinstance(counts, tuple) or any(x is None or isinstance(x, Sequence | np.ndarray) for x in counts)


def _per_rank(given: Any, ranks: int, what: str) -> list[int]:
    if isinstance(given, int | np.integer):
        return [int(given)] * ranks
    numbers = [operator.index(x) for x in given]
    if len(numbers) != ranks:
        raise ValueError(f"{len(numbers)} {what}; expected one a rank, {ranks}")
    return numbers


def _whole(line: NumpyArray, blocks: int) -> NumpyArray:
    if line.size % blocks:
        raise ValueError(f"a buffer of {line.size} elements: expected a number that {blocks} ranks divide")
    return line


def _plain_octets(spec: Any, blocks: int = 1) -> NumpyArray | None:
    """The common cases, cut short; None for what is to be looked at closely."""
    try:
        if type(spec) is not list and type(spec) is not tuple:
            if not (moves(spec.dtype) if type(spec) is np.ndarray else type(spec) in OCTETS):
                return None
            return frombuffer(spec, OCTET) if blocks == 1 or spec.size % blocks == 0 else None
        data, count, datatype = spec
        if not (moves(data.dtype) if type(data) is np.ndarray else type(data) in OCTETS):
            return None
        if type(count) is int and type(datatype) is Datatype and datatype.size:
            if count > 0:
                return frombuffer(data, OCTET, count * datatype.size * blocks)
            return NOTHING if count == 0 else None
    except UNFIT:  # also where it is no list of three, or does not have its size
        pass
    return None


def _as_octets(line: NumpyArray) -> NumpyArray:
    return line.view(OCTET) if line.size else NOTHING
