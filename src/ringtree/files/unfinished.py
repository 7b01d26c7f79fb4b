"""The file that a new one is written in until it is whole: a hidden one beside it, of a name that nobody foresees."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
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


def keep_access(descriptor: int, replaced: Path, more: int = 0) -> bool:
    """Gives a new file the permissions of the one that it replaces, if there is one, and `more`; and its owner and
    group, as far as this user may; not set-user and set-group bits. Whether that changed anything."""
    if not hasattr(os, "fchown"):  # on Windows
        return False
    try:
        before, now = replaced.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    moved = (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid) and _give(descriptor, before)
    mode = before.st_mode & 0o777 | more
    if not moved and mode == stat.S_IMODE(now.st_mode):
        return False
    os.fchmod(descriptor, mode)  # also after a change of owner, which takes some away
    return True


def _give(descriptor: int, owned: os.stat_result) -> bool:
    """Gives a file that owner and group, or the group alone; whether this user may."""
    for owner in (owned.st_uid, -1):
        with suppress(OSError):  # it is not this user's to give, or the file system has no owners
            os.fchown(descriptor, owner, owned.st_gid)
            return True
    return False
