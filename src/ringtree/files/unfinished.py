"""The file that a new one is written in until it is whole: a hidden one beside it, of a name that nobody foresees."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

TOKEN_BITS = 64
MOST_NAME_BYTES = 200
"""Bytes of a file's name that the unfinished one's has, so that it fits in the 255 of a file system."""


def unfinished_path(target: Path, token: int | None = None) -> Path:
    """A path beside `target`. `token`: a random number, where several processes have to know the path."""
    name = os.fsencode(target.name)[:MOST_NAME_BYTES].decode(errors="ignore")
    number = secrets.randbits(TOKEN_BITS) if token is None else token % (1 << TOKEN_BITS)
    return target.with_name(f".{name}.{number:016x}.unfinished")


def create(path: Path, mode: int = 0o666) -> int:
    """The descriptor of a new file, to write to, of this mode as the umask leaves it. OSError: where anything has the
    name, were it a link to nothing."""
    binary = getattr(os, "O_BINARY", 0)  # of Windows alone, where plans and simulations run
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | binary, mode)
