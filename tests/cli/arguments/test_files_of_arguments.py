"""Each argument that names a file has a type that says whether it is read or written, so that none is written over."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtree.cli import COMMANDS, parser_for
from ringtree.cli.arguments.destination import files_read
from ringtree.cli.options.files import READ, FileRead, Functions, MayBeFile, MayBeSchedule, ProgramAndTable, to_write

NAMES_A_FILE = re.compile(r"FILE|FOLDER|DIR|TABLE|DUMPS|\.json|FUNCTION|ALGORITHM\b|PATH")
ELSEWHERE = ("--python",)
"""Options whose paths are on other hosts."""


def arguments(command: str) -> Iterator[argparse.Action]:
    """Those of a command, and of the commands in it."""
    [commands] = (a for a in parser_for(command)._actions if isinstance(a, argparse._SubParsersAction))
    parsers = [commands.choices[command]]
    while parsers:
        for action in parsers.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            else:
                yield action


@pytest.mark.parametrize("command", COMMANDS)
def test_an_argument_that_names_a_file_is_read_or_written(command: str) -> None:
    for action in arguments(command):
        name = "/".join(action.option_strings) or action.dest
        named = action.type is Path or NAMES_A_FILE.search(f"{action.metavar}")
        if action.nargs != 0 and named and name not in ELSEWHERE:
            assert action.type in (*READ, to_write), f"{command} {name}: expected a type of ringtree.cli.options.files"


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (FileRead("a"), ["a"]),
        (MayBeFile("trace:a"), ["a"]),
        (MayBeFile("a"), ["a"]),
        (MayBeFile("b.py:ring"), ["b.py"]),
        (MayBeSchedule("a"), ["a"]),
        (MayBeSchedule("-"), []),
        (Functions("a"), []),
        (Functions("ring,b.py:ring"), ["b.py"]),
        (Functions("b.py:ring:broadcast:8"), ["b.py"]),
        (ProgramAndTable("a=b.py"), ["a", "b.py"]),
        (ProgramAndTable("a"), ["a"]),
        ([FileRead("a"), FileRead("none")], ["a"]),
        (to_write("a"), []),
        ("a", []),
    ],
)
def test_the_files_of_an_argument(
    value: object, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b.py"):
        Path(name).touch()
    assert sorted(set(files_read(argparse.Namespace(value=value)))) == names
