"""A file that a command is to write: refused before the work begins where it could not be written after it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile


def check_destination(path: Path, *others: str | Path) -> None:
    """ValueError, one line, where `path` cannot become a file, or is one of the `others`, which the command reads or
    writes as well. What is there is left alone, and nothing new either."""
    folder = path.absolute().parent
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected a file to write to")
    if not folder.is_dir():
        raise ValueError(f"{path}: no such folder to write to")
    if path.exists() and not path.is_file():
        return  # a pipe or a device
    if any(Path(other).resolve() == path.resolve() for other in others):
        raise ValueError(f"{path} is read or written by this command already; expected another file to write to")
    try:
        with TemporaryFile(dir=folder):  # rights, room and read-only disks alike
            pass
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None
