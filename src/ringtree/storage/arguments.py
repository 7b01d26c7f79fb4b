"""Arguments of load and save: a group, the name of a file, a function that is called with bytes. Errors name them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ringtree.runtime.communicator.arguments import described
from ringtree.runtime.communicator.communicator import Communicator


def check_group(comm: Any) -> None:
    """TypeError: if it is no communicator, by which ranks could agree on an error; it is this rank's own."""
    if not isinstance(comm, Communicator):
        raise TypeError(f"comm is {described(comm)}; expected a communicator, such as ringtree.init() returns")


def file_path(path: Any) -> Path:
    """The path of a file. TypeError, ValueError: if it is no name."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is {described(path)}; expected the name of a file")
    if not (name := os.fsdecode(path)):
        raise ValueError("path is empty; expected the name of a file")
    if "\0" in name:
        raise ValueError(f"path is {name!r}, with a NUL; expected the name of a file")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise ValueError(f"path is {name!r}, with half a character; expected the name of a file") from None
    if name.rpartition(os.sep)[2] in ("", "."):  # a Path drops that, and would name a file
        raise ValueError(f"{name}: the name of a folder, as it ends; expected the name of a file")
    return Path(name)


def check_progress(progress: Any) -> None:
    """TypeError: if it is neither a function nor None."""
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is {described(progress)}; expected a function of bytes, (done, total)")
