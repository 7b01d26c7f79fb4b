"""A file's bytes, in bounded memory and time: a folder, a pipe or a device is refused, and so is one too long.
Readers open a file several times, so standard input is read as bytes instead.

Every file that somebody else may have written is opened here.
"""

from __future__ import annotations

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

PIECE_BYTES = 1 << 20
MOST_RATIO = 200
"""The most that unpacked bytes may be of the file's. Deflate packs zeros 1,000 times; a trace some 10."""
FREE_BYTES = 1 << 24
"""Unpacked bytes whose ratio is not looked at."""
_MARK = b"\xef\xbb\xbf"
"""The byte order mark with which some editors begin a text."""
_GZIP = b"\x1f\x8b"
_ARCHIVES = {
    _GZIP: "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
}


class FileContent:
    """The bytes of an open file, piece by piece, unpacked where gzip packed them; without a byte order mark where it is
    no `binary` file."""

    def __init__(self, path: Path, file: IO[bytes], expected: str, most: int, binary: bool = False) -> None:
        self._mark = b"" if binary else _MARK
        self._path, self._expected, self._most, self._read = path, expected, most, 0
        self._packed = _head(file, 2) == _GZIP
        self._most_unpacked = max(FREE_BYTES, os.fstat(file.fileno()).st_size * MOST_RATIO)
        self._file: IO[bytes] = gzip.GzipFile(fileobj=file) if self._packed else file  # type: ignore[assignment]

    def read(self, nbytes: int = PIECE_BYTES) -> bytes:
        """The next bytes, `nbytes` at most, b"" at the end. ValueError: where the file is longer than it may be, packed
        more than files are, or broken."""
        try:
            piece = self._file.read(nbytes) or b""  # None: nothing for now, of a file that waits
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self._path}: its gzip is broken or cut short: {error}") from None
        except OSError as error:
            raise ValueError(f"{self._path}: {_reason(error)}; expected {self._expected}") from None
        if not self._read and nbytes > len(self._mark):
            piece = piece.removeprefix(self._mark)
        self._read += len(piece)
        if self._read > self._most:
            long = "unpacked more than" if self._packed else "more than"
            raise ValueError(f"{self._path}: {long} {self._most:,} bytes; expected {self._expected} of fewer")
        if self._packed and self._read > self._most_unpacked:
            raise ValueError(
                f"{self._path}: unpacked over {MOST_RATIO} times as long as packed; expected {self._expected}"
            )
        return piece

    def beginning(self, nbytes: int) -> bytes:
        """The first bytes, `nbytes` at most, also of a packed file that is cut short behind them."""
        found = b""
        with suppress(EOFError, zlib.error, OSError):
            while len(found) < nbytes and (piece := self._file.read1(nbytes - len(found))):  # type: ignore[attr-defined]
                found += piece
        return found


@contextmanager
def opened(path: str | Path, expected: str) -> Iterator[IO[bytes]]:
    """An open plain file. ValueError, in one line: if it is none, or cannot be opened. Nothing is waited for."""
    path = Path(path)
    if "\0" in str(path):
        raise ValueError(f"{str(path)!r}: no name of a file; expected {expected}")
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode):  # a device is not even opened
            raise ValueError(f"{path}: {_kind(mode)}; expected {expected}")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"{path}: {_reason(error)}; expected {expected}") from None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode):
            raise ValueError(f"{path}: {_kind(mode)}; expected {expected}")  # it was another a moment ago
        yield file


@contextmanager
def content(
    path: str | Path, expected: str, most: int, unpack: bool = False, binary: bool = False
) -> Iterator[FileContent]:
    """The content of a plain file, of at most `most` bytes, unpacked ones with `unpack`. ValueError, in one line: if it
    is none, empty or too long. `expected` names the wanted file in that line."""
    path = Path(path)
    with opened(path, expected) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise ValueError(f"{path}: {size:,} bytes; expected {expected}, at most {most:,} bytes")
        start = _head(file, 6)
        if not start:
            raise ValueError(f"{path}: empty; expected {expected}")
        for magic, name in _ARCHIVES.items():
            if start.startswith(magic) and not (unpack and magic == _GZIP):
                raise ValueError(f"{path}: packed with {name}; expected {expected}: unpack it first")
        yield FileContent(path, file, expected, most, binary)


def file_bytes(path: str | Path, expected: str, most: int, unpack: bool = False) -> bytes:
    """All of `content`; ValueError as there, and for a file of nothing but space."""
    with content(path, expected, most, unpack) as of:
        data = b"".join(iter(of.read, b""))
    if not data.strip():
        raise ValueError(f"{path}: empty; expected {expected}")
    return data


def is_standard_input(path: str) -> bool:
    """Whether the path names standard input: `-`, or `/dev/stdin` where that is a pipe, which is read once only."""
    if path != "/dev/stdin":
        return path == "-"
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def standard_input(expected: str, most: int) -> bytes:
    """All of standard input, up to its end. ValueError, in one line: where it is a terminal, which a user would have to
    end, closed, empty, or of more than `most` bytes."""
    stream = sys.stdin
    if stream is None or stream.closed or stream.isatty():
        there = "a terminal" if stream is not None and not stream.closed else "closed"
        raise ValueError(f"standard input: {there}; expected {expected} from a pipe or a file")
    data = stream.buffer.read(most + 1)
    if len(data) > most:
        raise ValueError(f"standard input: more than {most:,} bytes; expected {expected} of fewer")
    if not data.strip():
        raise ValueError(f"standard input: empty; expected {expected}")
    return data.removeprefix(_MARK)


def beginning(path: str | Path, expected: str, nbytes: int) -> bytes:
    """The first bytes of a plain file. ValueError, in one line: if it is none, cannot be read, or is empty."""
    with opened(path, expected) as file:
        try:
            data = file.read(nbytes)
        except OSError as error:
            raise ValueError(f"{path}: {_reason(error)}; expected {expected}") from None
    if not data:
        raise ValueError(f"{path}: empty; expected {expected}")
    return data.removeprefix(_MARK)


def first_bytes(path: str | Path, nbytes: int, unpack: bool = False) -> bytes:
    """The first bytes of a plain file, by which its form is recognized; b"" of anything else."""
    try:
        with opened(path, "") as file:
            start = FileContent(Path(path), file, "", nbytes).beginning(nbytes) if unpack else _head(file, nbytes)
            return start.removeprefix(_MARK)
    except (ValueError, OSError):
        return b""


def _head(file: IO[bytes], nbytes: int) -> bytes:
    try:
        return file.read(nbytes) or b""
    except OSError:
        return b""
    finally:
        file.seek(0)


def _reason(error: OSError) -> str:
    return "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror or error})"


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    return next((name for of, name in kinds.items() if of(mode)), "a device")
