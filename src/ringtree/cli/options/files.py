"""Types of arguments that name files: those that a command reads, which it must not write over, and those it writes."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

MEASURED = "trace:"
"""Before the file of a measured trace, where a topology is expected."""
if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())  # before Python 3.12 Path itself has no derived classes


class FileRead(_Path):
    """A file or folder that is read."""

    @property
    def files(self) -> tuple[str, ...]:
        """The file."""
        return (str(self),)


class MayBeFile(str):
    """A file that is read, `trace:FILE`, or the name of a machine, a shape or a host; or FILE.py:FUNCTION."""

    __slots__ = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The words that may be files."""
        return (self.removeprefix(MEASURED), *Functions(self).files)


class MayBeSchedule(MayBeFile):
    """A schedule's file, `-` for standard input, or an algorithm; or FILE.py:FUNCTION."""

    __slots__ = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The words that may be files."""
        return tuple(each for each in super().files if each != "-")


class Functions(str):
    """Names of algorithms, some of which may be FILE.py:FUNCTION."""

    __slots__ = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files of functions."""
        found = (re.match(r"(.+\.py):", part) for part in (self, *self.split(",")))
        return tuple(each[1] for each in found if each)


class ProgramAndTable(str):
    """[PROGRAM=]TABLE, two files that are read."""

    __slots__ = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The words that may be files."""
        return (str(self), *self.partition("=")[::2])


READ = FileRead, MayBeFile, MayBeSchedule, Functions, ProgramAndTable
"""The types of arguments that may name files which are read; each value has `files`."""


def check_read(args: argparse.Namespace) -> None:
    """ValueError, one line, where `-` is given as a file that is read: to other programs it is standard input, which
    most files are not read from: their readers open them several times."""
    for value in vars(args).values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, READ) and "-" in each.files:
                raise ValueError("-: standard input is not read; expected the name of a file")


def to_write(text: str) -> Path:
    """The path of a file or folder to write; `check_destinations` refuses one that cannot be written. An empty one, of
    a variable that is not set, would be the working folder."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path; expected the name of a file or folder to write to")
    return Path(text)


def name_to_write(text: str) -> Path:
    """The path with which the names of files to write begin: no folder's."""
    if text.endswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; expected what files' names begin with: {text}NAME")
    return to_write(text)
