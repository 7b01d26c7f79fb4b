"""A file or folder that a command is to write: refused before work begins where it could not be written after it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile

from ringtree.cli.options.files import READ
from ringtree.files.replacing import descriptor_of, replacing

LEAST_BYTES = 4096
"""The room that a file needs at least: an empty one has some on a full disk."""


def files_read(args: argparse.Namespace) -> list[str]:
    """The files that a command reads by its arguments, those of FILE.py:FUNCTION too."""
    values = (value if isinstance(value, list) else [value] for value in vars(args).values())
    named = (file for each in values for value in each if isinstance(value, READ) for file in value.files)
    return [file for file in named if os.path.exists(file)]  # others are names of machines and such


def check_destinations(args: argparse.Namespace, *paths: Path | None, others: Iterable[str | Path] = ()) -> None:
    """`check_destination` of each path that is given: against the other paths, all that the command reads by its
    arguments, and the `others` that it reads."""
    written = list(filter(None, paths))
    for n, path in enumerate(written):
        check_destination(path, *files_read(args), *others, *written[:n], *written[n + 1 :])


def check_destination(path: Path, *others: str | Path) -> None:
    """ValueError, one line, where `path` cannot become a file, or is one of the `others`, which the command reads or
    writes as well. What is there is left alone, and nothing new either."""
    if str(path) == "-":
        raise ValueError("-: expected a file to write to, or /dev/stdout")
    folder = path.absolute().parent
    if descriptor_of(path) is not None:
        if not path.exists():
            raise ValueError(f"{path}: no such descriptor is open; expected /dev/stdout, or a file to write to")
        return
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a file to write to")
    if not folder.is_dir():
        raise ValueError(f"{path}: no such folder to write to")
    if path.exists() and not path.is_file():
        return  # a pipe or a device
    if any(Path(other).resolve() == path.resolve() for other in others):
        raise ValueError(f"{path} is read or written by this command already; expected another file to write to")
    _check_writable(path, folder)


def check_folder(path: Path, *files: Path) -> None:
    """ValueError, one line, where `path` is no folder that can be written to, and cannot become one, as where it is, or
    would be in, one of the `files` that the command writes. Makes nothing."""
    whole = path.resolve()
    if taken := next((file for file in files if file.resolve() in (whole, *whole.parents)), None):
        raise ValueError(f"{path}: {taken} is written by this command as a file; expected another folder to write to")
    there = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    if not there.is_dir():
        raise ValueError(f"{there} is a file; expected a folder to write to")
    _check_writable(path, there)


def _check_writable(path: Path, folder: Path) -> None:
    try:
        with TemporaryFile(dir=folder) as file:  # rights, room and read-only disks alike
            file.write(bytes(LEAST_BYTES))
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None


def write_page(path: Path, html: str, *others: str | Path) -> None:
    """Writes the page and prints its path. ValueError where the path cannot be written, or is one of the `others`,
    which the command read."""
    check_destination(path, *others)
    with replacing(path) as file:
        file.write(html.encode(errors="replace"))  # half of a surrogate pair, in a name
    print(f"{path}: any browser opens it")
