"""Calling the command in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from ringtree.cli import main


class CommandResult(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


Ringtree = Callable[..., CommandResult]


@pytest.fixture
def ringtree(capsys: pytest.CaptureFixture[str]) -> Ringtree:
    """`ringtree("show", "ring")` as from a shell."""

    def call(*words: str) -> CommandResult:
        try:
            code = main(words)
        except SystemExit as exit:  # argparse's way to end
            code = int(exit.code or 0)
        return CommandResult(code, *capsys.readouterr())

    return call
