"""Buffer arguments: mpi4py's descriptions of memory, as flat numpy arrays over that memory.

    data                                   an array, or anything with the buffer protocol (or torch's, or DLPack's)
    [data, type]  [data, count]  [data, count, type]  [data, (count, displacement), type]
    [data, counts, displacements, type]  [data, (counts, displacements), type]     one of each per rank

Types are Datatypes or typestrings; counts and displacements are in elements. `None` is no data.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.mpi.datatype import Datatype
from ringtree.mpi.dlpack import from_dlpack

NumpyArray = NDArray[Any]
_OCTET = np.dtype("u1")
_NOTHING = np.empty(0, _OCTET)
_frombuffer = np.frombuffer
_UNFIT = (AttributeError, BufferError, TypeError, ValueError)  # no buffer, or too short, or not contiguous


def flat(data: Any, dtype: np.dtype[Any] | None = None) -> NumpyArray:
    """All of `data` in one dimension, over the same memory; as elements of `dtype`, else of its own type."""
    if data is None:
        return np.empty(0, dtype or _OCTET)
    if type(data) is not np.ndarray:
        data = _exported(data, dtype)
    if not data.flags.c_contiguous:
        data = data.T
        if not data.flags.c_contiguous:
            raise ValueError("a buffer is not contiguous; expected a contiguous array")
    line: NumpyArray = data.reshape(-1)
    if dtype is None or line.dtype == dtype:
        return line
    octets = line.view(_OCTET) if line.size else _NOTHING
    return octets[: octets.size // dtype.itemsize * dtype.itemsize].view(dtype)


def block(spec: Any, blocks: int = 1) -> NumpyArray:
    """The elements that `spec` means, where it gives the number in each of `blocks`; all of them without. ValueError:
    if the buffer is too short."""
    if type(spec) is np.ndarray and spec.flags.c_contiguous:
        return _whole(spec if spec.ndim == 1 else spec.reshape(-1), blocks)
    data, given, datatype = _parts(spec)
    line = flat(data, None if datatype is None else datatype.dtype)
    count, start = given if isinstance(given, tuple) else (given, None)
    start = 0 if start is None else operator.index(start)
    if not 0 <= start <= line.size:
        raise ValueError(f"a buffer of {line.size} elements has no element {start} to start at")
    if count is None:
        return _whole(line[start:], blocks)
    count = operator.index(count)
    if count < 0 or start + count * blocks > line.size:
        raise _misfit(line, count, start, blocks)
    return line[start : start + count * blocks]


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
    """Uneven blocks: the buffer as a line, and each rank's count and displacement in elements of it. ValueError: if it
    is too short, or has no counts and is not evenly divisible."""
    data, given, datatype = _parts(spec)
    line = flat(data, None if datatype is None else datatype.dtype)
    counts, starts = given if isinstance(given, tuple) else (given, None)
    if counts is None:
        if line.size % ranks:
            raise ValueError(f"a buffer of {line.size} elements without counts: expected one that {ranks} ranks divide")
        counts = line.size // ranks
    sizes = _per_rank(counts, ranks, "counts")
    if starts is None:
        displacements = [0, *np.cumsum(sizes).tolist()[:-1]]
    elif isinstance(starts, int | np.integer):
        displacements = [rank * int(starts) for rank in range(ranks)]
    else:
        displacements = _per_rank(starts, ranks, "displacements")
    for size, start in zip(sizes, displacements, strict=True):
        if size < 0 or (size and not 0 <= start <= line.size - size):
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
        if datatype is not None and not datatype.size:
            raise ValueError("DATATYPE_NULL cannot describe a buffer's elements; expected a datatype")
    if len(rest) > 2:
        raise ValueError("expected a buffer as [data, count, type] or [data, counts, displacements, type]")
    if len(rest) == 2:
        return data, (rest[0], rest[1]), datatype
    counts = rest[0] if rest else None
    if isinstance(counts, list | tuple) and len(counts) == 2 and _is_placing(counts):
        return data, (counts[0], counts[1]), datatype
    return data, counts, datatype


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


def _exported(data: Any, dtype: np.dtype[Any] | None) -> NumpyArray:
    if isinstance(data, list | tuple | dict | str | int | float):
        raise TypeError(f"{type(data).__name__} is no buffer; expected an array, or anything with the buffer protocol")
    if dtype is not None:
        try:
            return _frombuffer(data, dtype)
        except _UNFIT:
            pass
    try:
        return np.asarray(memoryview(data))
    except _UNFIT:
        pass
    if hasattr(data, "__array__"):
        return np.asarray(data)  # a torch tensor on the CPU shares its memory so
    if hasattr(data, "__dlpack__"):
        return from_dlpack(data)
    raise TypeError(f"{type(data).__name__} is no buffer; expected an array, or anything with the buffer protocol")


def _plain_octets(spec: Any, blocks: int = 1) -> NumpyArray | None:
    """The common cases, cut short; None for what is to be looked at closely."""
    try:
        if type(spec) is not list and type(spec) is not tuple:
            return _frombuffer(spec, _OCTET) if blocks == 1 or spec.size % blocks == 0 else None
        data, count, datatype = spec
        if type(count) is int and type(datatype) is Datatype and datatype.size:
            if count > 0:
                return _frombuffer(data, _OCTET, count * datatype.size * blocks)
            return _NOTHING if count == 0 else None
    except _UNFIT:  # also where it is no list of three, or does not have its size
        pass
    return None


def _as_octets(line: NumpyArray) -> NumpyArray:
    return line.view(_OCTET) if line.size else _NOTHING
