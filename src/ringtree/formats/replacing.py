"""Replaces a file only when the new one is complete."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that becomes `path` at the end of the block; if the block fails, `path` is as it was. A path that
    is no plain file (a pipe, a device) is written to; a link is followed. OSError names `path`, a full disk's too."""
    try:
        with _replacing(path) as file:
            yield file
    except OSError as error:
        raise error if error.filename else OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    target = path.resolve()
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            yield file
        return
    beside = target.with_name(f".{target.name}.part")
    try:
        with open(beside, "wb") as file:
            yield file
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def replace_with_json(path: Path, value: Any) -> None:
    """Writes `value` as JSON by `replacing`."""
    text = json.dumps(value, indent=1)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())
