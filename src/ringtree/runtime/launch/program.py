"""The words that start a program."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from zipfile import BadZipFile, ZipFile

OWN_COMMAND = "ringtree.cli"
SAFE_PATH = ("-P",) if sys.version_info >= (3, 11) else ()
"""Python's option to leave the current folder out of the import path; Python 3.10 has none."""


def resolve(command: Sequence[str], module: bool) -> list[str]:
    """The words to execute; ValueError where there is no such program."""
    if not command:
        raise ValueError("no program to run; expected a Python file, -m and a module, or an executable")
    name = command[0]
    if not name:
        raise ValueError("the program's name is empty; expected a Python file, -m and a module, or an executable")
    if module:
        here = _folder()
        if PathFinder.find_spec(name.split(".")[0], [*here, *sys.path]) is None:
            where = f"neither in {here[0]} nor" if here else "not"
            raise ValueError(f"no module {name!r} to run: it is {where} installed")
        # a user's folder is for the user's own modules: a queue.py in it would take the library's place
        return [sys.executable, *(SAFE_PATH if name == OWN_COMMAND else ()), "-m", *command]
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise ValueError(f"no such program: {name}")
        return [sys.executable, *command]
    found = shutil.which(name)
    if found is None:
        if _python_runs(name):
            return [sys.executable, *command]
        what = "a folder without __main__.py" if Path(name).is_dir() else "not executable"
        why = f"{name} is {what}" if Path(name).exists() else f"no such program: {name}"
        raise ValueError(f"{why}; expected a Python file, -m and a module, or an executable")
    return [found, *command[1:]]


def without_interpreter(words: Sequence[str]) -> list[str]:
    """The words that `resolve` returned, without Python's own."""
    if words[:1] != [sys.executable]:
        return [*words]
    return [*words[1 + len(SAFE_PATH) if tuple(words[1:2]) == SAFE_PATH else 1 :]]


def _python_runs(name: str) -> bool:
    """Whether Python runs what is no file of its own: a folder or an archive with a __main__.py."""
    if Path(name).is_dir():
        return (Path(name) / "__main__.py").is_file()
    try:
        with ZipFile(name) as archive:
            return "__main__.py" in archive.namelist()
    except (OSError, BadZipFile):
        return False


def _folder() -> list[str]:
    """The current folder; nothing where somebody has removed it."""
    try:
        return [os.getcwd()]
    except FileNotFoundError:
        return []
