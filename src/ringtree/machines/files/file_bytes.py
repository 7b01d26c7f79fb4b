"""A file's bytes, in bounded memory and time: a folder, a pipe or a device is refused, and so is one too long."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_ARCHIVES = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
}


def file_bytes(path: str | Path, expected: str, most: int) -> bytes:
    """The bytes of a plain file. ValueError, in one line: if it is none, empty, packed or beyond `most` bytes.
    `expected` names the wanted file in that line."""
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
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path}: {_kind(found.st_mode)}; expected {expected}")  # it was another a moment ago
        try:
            data = file.read(most + 1)  # the reported size may change meanwhile
        except OSError as error:
            raise ValueError(f"{path}: {_reason(error)}; expected {expected}") from None
    if len(data) > most:
        size = max(found.st_size, len(data))
        raise ValueError(f"{path}: {size:,} bytes; expected {expected}, at most {most:,} bytes")
    if not data.strip():
        raise ValueError(f"{path}: empty; expected {expected}")
    for start, name in _ARCHIVES.items():
        if data.startswith(start):
            raise ValueError(f"{path}: packed with {name}; expected {expected}: unpack it first")
    return data


def _reason(error: OSError) -> str:
    return "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    return next((name for of, name in kinds.items() if of(mode)), "a device")
