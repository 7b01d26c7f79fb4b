"""The headers of files: which tensors there are, and the bytes of each. safetensors, numpy's .npy, and raw arrays.

A safetensors file is 8 bytes, the length of the header; the header, JSON; and the tensors' bytes, without holes. A
header is taken only where all of that holds for the file as it is.
"""

from __future__ import annotations

import ast
import gc
import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from io import BytesIO
from operator import attrgetter, index
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ringtree.files.json_values import MOST_VALUES, count_values, json_value, shown
from ringtree.storage.elements import ELEMENTS, ORDER, ElementType, of_array

EXPECTED = "a safetensors file"
MOST_HEADER_BYTES = 100_000_000
"""The most that safetensors itself takes."""
LONG_HEADER_BYTES = 1 << 20
"""Some 10,000 tensors."""
METADATA = "__metadata__"
"""The name of the texts among the tensors of a header."""
NPY = b"\x93NUMPY"
MOST_NPY_BYTES = 10_000
"""The most that numpy itself takes as safe."""
OF_ARRAY = {"descr", "fortran_order", "shape"}
"""The names of a .npy header."""
LONG = re.compile(r"(?<=\d)L(?=[,)])")
ALIGNMENT = 8
"""Written headers end at multiples of these bytes, so that tensors of 8-byte elements lie aligned."""
DESCRIBED = frozenset(("dtype", "shape", "data_offsets"))
"""The names of a tensor's description."""
MOST_COUNT = (1 << 63) - 1
MOST_DIMENSIONS = 64
"""The most of an array of numpy's."""
EXPECTED_SHAPE = f"expected at most {MOST_DIMENSIONS} lengths of 0 or more, of fewer than 2**63 bytes"


class Entry(NamedTuple):
    """A tensor of a file: `begin` and `end` are bytes of the file. `transposed`: it lies there in Fortran's order."""

    name: str
    element: ElementType
    shape: tuple[int, ...]
    begin: int
    end: int
    transposed: bool = False


class Header(NamedTuple):
    """The tensors of a file in the order of their bytes; `digest` differs where files differ in them."""

    path: Path
    size: int
    entries: tuple[Entry, ...]
    metadata: dict[str, str]
    digest: int
    single: bool = False


def read_header(file: IO[bytes], path: Path) -> Header:
    """The header of a safetensors or .npy file. ValueError, in one line: if the file is neither, cut short, or its
    header does not describe it."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    start = file.read(8)
    if start.startswith(NPY):
        return _npy(file, path, size)
    if len(start) < 8:
        raise ValueError(f"{path}: {size} bytes; expected {EXPECTED}, whose header takes 8 and more")
    length = int.from_bytes(start, "little")
    if length > MOST_HEADER_BYTES:
        raise ValueError(
            f"{path}: a header of {length:,} bytes; expected {EXPECTED}, whose header has {MOST_HEADER_BYTES:,} at most"
        )
    if 8 + length > size:
        how = f"cut short: {size:,} bytes, with a header of {length:,}"
        raise ValueError(f"{path}: {how}; expected {8 + length:,} and more")
    text = file.read(length)
    if not text.startswith(b"{"):
        raise ValueError(f"{path}: its header begins with {shown(text[:8])}; expected {EXPECTED}, and {{ there")
    with _collected_later() if length > LONG_HEADER_BYTES else nullcontext():
        try:
            whole = _whole if b"-0" in text else None  # seldom: a function of each number takes time
            table = json_value(text.decode(), str(path), EXPECTED, most=MOST_HEADER_BYTES, unique=True, whole=whole)
        except UnicodeDecodeError:
            raise ValueError(f"{path}: its header is not UTF-8; expected {EXPECTED}") from None
        entries, metadata = _entries(table, path, 8 + length)
    _check_bytes(entries, path, 8 + length, size)
    return Header(path, size, entries, metadata, digest_of(size, start, text))


def raw_header(path: Path, size: int, element: ElementType, shape: Sequence[int] | int) -> Header:
    """The header of a file that is one array's elements and nothing else; one length may be -1."""
    itemsize = element.itemsize
    try:
        lengths = [index(n) for n in (shape if isinstance(shape, Iterable) else (shape,))]
    except TypeError:
        raise TypeError(f"{path}: shape is {shape!r}; expected lengths, of which one may be -1") from None
    if lengths.count(-1) == 1 and (others := -math.prod(lengths) * itemsize) > 0 and size % others == 0:
        lengths[lengths.index(-1)] = size // others
    if not _counts(lengths) or not _fits(lengths, itemsize) or math.prod(lengths) * itemsize != size:
        of = shape if isinstance(shape, int) else tuple(shape)
        raise ValueError(
            f"{path}: {size:,} bytes; expected an array of shape {of} of {element.label}, {itemsize} bytes each"
        )
    entry = Entry("", element, tuple(lengths), 0, size)
    return Header(path, size, (entry,), {}, digest_of(size, repr(entry)), single=True)


def safetensors_bytes(
    tensors: Mapping[str, tuple[ElementType, tuple[int, ...]]], metadata: Mapping[str, str] | None
) -> tuple[bytes, tuple[Entry, ...]]:
    """The first bytes of a safetensors file, and its tensors, which follow them in the order in which safetensors
    itself writes them: the types of the longest elements first, so that each lies aligned, and by name."""
    table: dict[str, Any] = {} if metadata is None else {METADATA: dict(metadata)}
    at, entries = 0, []
    for name, (element, shape) in sorted(tensors.items(), key=lambda item: (-ORDER[item[1][0].name], item[0])):
        end = at + math.prod(shape) * element.itemsize
        table[name] = {"dtype": element.name, "shape": list(shape), "data_offsets": [at, end]}
        entries.append(Entry(name, element, shape, at, end))
        at = end
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    if len(text) > MOST_HEADER_BYTES or count_values(text) > MOST_VALUES:
        raise ValueError(
            f"a header of {len(tensors):,} tensors in {len(text):,} bytes; expected {MOST_VALUES:,} values (some "
            f"300,000 tensors of few dimensions) in {MOST_HEADER_BYTES:,} bytes at most: save several files"
        )
    begin = 8 + len(text)
    moved = tuple(e._replace(begin=begin + e.begin, end=begin + e.end) for e in entries)
    return len(text).to_bytes(8, "little") + text, moved


def npy_bytes(element: ElementType, shape: tuple[int, ...]) -> tuple[bytes, tuple[Entry, ...]]:
    """The first bytes of a .npy file of an array in C's order, and the array, which follows them."""
    text = BytesIO()
    described = {"descr": np.dtype(element.label).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(text, described)
    begin = text.tell()
    return text.getvalue(), (Entry("", element, shape, begin, begin + math.prod(shape) * element.itemsize),)


@contextmanager
def _collected_later() -> Iterator[None]:
    """Python's collector of cycles does not look through the containers again and again as they become many: that is
    half of the time of 100,000 tensors, which have no cycles."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _entries(table: Any, path: Path, begin: int) -> tuple[tuple[Entry, ...], dict[str, str]]:
    """The tensors in the order of their bytes, each checked by itself, and the metadata."""
    if not isinstance(table, dict):
        raise ValueError(f"{path}: its header is {shown(table)}; expected {EXPECTED}, and an object of tensors")
    metadata = table.pop(METADATA, None)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError(f"{path}: __metadata__ is {shown(metadata)}; expected an object of texts")
    entries = [_entry(name, value, path, begin) for name, value in table.items()]
    return tuple(sorted(entries, key=attrgetter("begin", "end"))), metadata


def _whole(text: str) -> int | float:
    """A number of a header; -0 is no whole one to safetensors."""
    return -0.0 if text == "-0" else int(text)


def _entry(name: str, value: Any, path: Path, begin: int) -> Entry:
    if fault := _fault(name, value):
        raise ValueError(f"{path}: tensor {shown(name)} {fault}")
    first, end = value["data_offsets"]
    return Entry(name, ELEMENTS[value["dtype"]], tuple(value["shape"]), begin + first, begin + end)


def _fault(name: str, value: Any) -> str:
    """The fault of a tensor's description, in words; "" where it has none."""
    if not isinstance(value, dict) or value.keys() != DESCRIBED:
        return f"is {shown(value)}; expected dtype, shape and data_offsets"
    if not name.isascii() and name.encode(errors="replace").decode() != name:
        return "has half a character in its name; expected UTF-8"
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ELEMENTS:
        return f"has dtype {shown(dtype)}; expected one of {', '.join(ELEMENTS)}"
    itemsize = ELEMENTS[dtype].itemsize
    if not _counts(shape) or not _fits(shape, itemsize):
        return f"has shape {shown(shape)}; {EXPECTED_SHAPE}"
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        return f"has data_offsets {shown(offsets)}; expected its begin and its end"
    nbytes = offsets[1] - offsets[0]
    if math.prod(shape) * itemsize != nbytes:
        return f"has {nbytes:,} bytes; expected shape {shown(shape)} of {dtype}, {itemsize} bytes each"
    return ""


def _counts(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    for n in value:  # noqa: SIM110  # all() of a generator takes three times as long, and a header may have 600,000 lists
        if type(n) is not int or n < 0 or n > MOST_COUNT:
            return False
    return True


def _fits(shape: Sequence[int], itemsize: int) -> bool:
    """Whether numpy has arrays of that shape; it leaves out lengths of 0."""
    if len(shape) > MOST_DIMENSIONS:
        return False
    return math.prod(filter(None, shape) if 0 in shape else shape) * itemsize <= MOST_COUNT


def _check_bytes(entries: tuple[Entry, ...], path: Path, begin: int, size: int) -> None:
    """ValueError: unless the tensors' bytes follow each other from the header's end to the file's."""
    at = begin
    for entry in entries:
        if entry.begin != at:
            how = "overlaps the tensor before" if entry.begin < at else "leaves a hole before it"
            raise ValueError(
                f"{path}: tensor {shown(entry.name)} {how}; expected it to begin at byte {at - begin:,} of the data"
            )
        at = entry.end
    if at != size:
        how = "cut short" if at > size else "longer than its header states"
        raise ValueError(f"{path}: {how}: {size:,} bytes; expected {at:,}")


def _npy(file: IO[bytes], path: Path, size: int) -> Header:
    """The header of a .npy file: magic, version, its length, and a dict as Python writes it."""
    expected = "expected a .npy file of numbers"
    file.seek(len(NPY))
    version, minor = file.read(2).ljust(2, b"\0")
    length = int.from_bytes(file.read(2 if version == 1 else 4), "little")
    if version not in (1, 2, 3) or minor or length > MOST_NPY_BYTES:
        of = f"{version}.{minor}" if minor else version
        raise ValueError(f"{path}: version {of} with a header of {length:,} bytes; {expected}")
    text = file.read(length)
    try:
        with warnings.catch_warnings():  # the parser's, of what looks like a mistake
            warnings.simplefilter("ignore")
            table = _literal(text.decode("utf-8" if version == 3 else "latin-1").strip(), version)
        shape, descr, transposed = table["shape"], table["descr"], table["fortran_order"]
        if {*table} != OF_ARRAY or not isinstance(transposed, bool):
            raise ValueError("another header")
        dtype = np.dtype(descr if isinstance(descr, str) else "O")
    except (ValueError, TypeError, SyntaxError, KeyError, RecursionError, MemoryError):
        raise ValueError(f"{path}: its header is {shown(text)}; {expected}") from None
    lengths = list(shape) if isinstance(shape, tuple) else None
    if dtype.hasobject or dtype.kind not in "biufc" or not _counts(lengths):
        raise ValueError(f"{path}: shape {shown(shape)} of {shown(descr)}; {expected}")
    if not _fits(shape, dtype.itemsize):
        raise ValueError(f"{path}: shape {shown(shape)} of {shown(descr)}; {EXPECTED_SHAPE}")
    begin = file.tell()
    nbytes = math.prod(shape) * dtype.itemsize
    if begin + nbytes != size:
        how = "cut short" if begin + nbytes > size else "longer than its header states"
        raise ValueError(f"{path}: {how}: {size:,} bytes; expected {begin + nbytes:,}")
    entry = Entry("", of_array(dtype), shape, begin, size, transposed=transposed and len(shape) > 1)
    return Header(path, size, (entry,), {}, digest_of(size, repr(entry)), single=True)


def _literal(text: str, version: int) -> Any:
    """The value of a header; Python 2 wrote long lengths, as 2L, which numpy takes, too."""
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        if version == 3:
            raise
        return ast.literal_eval(LONG.sub("", text))


def digest_of(*parts: bytes | str | int) -> int:
    """A digest in 64 bits, to compare between ranks."""
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else f"{part}\0".encode(errors="replace"))
    return int.from_bytes(digest.digest(), "little", signed=True)
