"""Replaces a file only when the new one is complete."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import isfinite
from pathlib import Path
from typing import IO, Any

from ringtree.files.unfinished import create, keep_access, unfinished_path

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,6})")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}


def descriptor_of(path: Path) -> int | None:
    """The descriptor of this process that a path such as /dev/stdout or /dev/fd/63 stands for; None for other paths."""
    text = str(path.absolute())
    named = _DESCRIPTOR.fullmatch(text)
    return int(named[1]) if named else _STANDARD.get(text)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that becomes `path` at the end of the block; if the block fails, `path` is as it was. Permissions
    are kept, and owner and group as far as this user may. A path that is no plain file (a pipe, a device, /dev/stdout)
    is written to; a link is followed. OSError names `path`, a full disk's too, and a pipe's that nobody reads, which is
    not waited for."""
    try:
        with _replacing(path) as file:
            yield file
    except OSError as error:
        raise error if error.filename else OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    if (descriptor := descriptor_of(path)) is not None:
        if sys.stdout is not None:
            sys.stdout.flush()  # what was printed before comes before
        with open(
            os.dup(descriptor), "wb"
        ) as file:  # opened anew, a plain file behind it would be written from its start
            yield file
        return
    if path.exists() and not path.is_file():
        with _pipe(path) if path.is_fifo() else open(path, "wb") as file:
            yield file
        return
    where = path.resolve()
    with renaming(where) as file:
        keep_access(file.fileno(), where)
        yield file


@contextmanager
def renaming(path: Path) -> Iterator[IO[bytes]]:
    """A new file to write that has the name `path` from the end of the block on, in the place of what had it, a link
    too; if the block fails, nothing is left of it. Two that write one path at once leave one's file, whole."""
    unfinished = unfinished_path(path)
    file = open(create(unfinished), "wb")  # noqa: SIM115  # outside the block: what another made is not unlinked
    try:
        with file:
            yield file
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def _pipe(path: Path) -> IO[bytes]:
    """A named pipe to write to. OSError: if nobody reads it, which opening it would wait for."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        what = "nobody reads this pipe; expected a reader, such as `cat PIPE` in another shell, or a file"
        raise OSError(error.errno, what, str(path)) from None
    os.set_blocking(descriptor, True)
    return open(descriptor, "wb")


def replace_with_json(path: Path, value: Any) -> None:
    """Writes `value` as JSON by `replacing`; infinities and NaN, of which JSON has none, as words: "inf", "nan"."""
    text = json.dumps(_in_words(value), indent=1, allow_nan=False)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())


def _in_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_words(its) for name, its in value.items()}
    if isinstance(value, list | tuple):
        return [_in_words(its) for its in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value
