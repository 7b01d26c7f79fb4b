"""`ringtree explain`: why a collective is slow, by a log; why a job hangs, by dumps. The files tell which it is."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ringtree.cli.explain import dumps, log
from ringtree.files.file_bytes import beginning
from ringtree.formats.flight.dumps import is_dump, rank_in

BEGINNING = 1 << 16
"""Bytes by which a file is recognized."""
_NUMBER = re.compile(r"\d+")
EXPECTED = "a flight recorder's dump, or a log of nccl-tests"


def run(args: argparse.Namespace) -> int:
    """Explains what the files say. Returns the exit code."""
    files = list(_files(args.files))
    found = [_is_dump(file) for file in files]
    if all(found):
        return dumps.run(files, args.json)
    if any(found):
        dump, other = files[found.index(True)], files[found.index(False)]
        raise ValueError(f"{dump} is a flight recorder's dump, {other} is none; expected dumps, or one log")
    if len(files) > 1:
        raise ValueError(f"{len(files)} logs: expected one log, or dumps of flight recorders")
    args.log = files[0]
    return log.run(args)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """The files, and those dumps that lie in folders. ValueError: for a file of a folder that has a rank in its name
    and cannot be read; without it, its rank would seem dead."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        there = [file for file in sorted(path.iterdir()) if file.name[0] != "."]
        inside = {file: None for file in there if _is_dump_inside(file)}
        if not inside:
            raise ValueError(f"{path}: no dumps of flight recorders in this folder")
        named = {_NUMBER.sub("", file.name) for file in inside}
        for file in there:
            if file not in inside and _NUMBER.sub("", file.name.removesuffix(".gz")) in named and file.is_file():
                raise ValueError(
                    f"{file} is named as the dumps beside it, and is none; to compare the others, name them"
                )
        yield from inside


def _is_dump(path: Path) -> bool:
    """Whether a file is a dump, by its first bytes. ValueError, in one line: where it has none that can be read."""
    return is_dump(beginning(path, EXPECTED, BEGINNING))


def _is_dump_inside(path: Path) -> bool:
    """The same of a file or folder in a folder."""
    if path.is_dir():
        return False
    try:
        return _is_dump(path)
    except ValueError as error:
        if rank_in(path.name) is None:
            return False
        raise ValueError(f"{error}; to compare the others, name them") from None
