"""Calling the command in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from ringtree.cli import main


class Said(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


Ringtree = Callable[..., Said]


@pytest.fixture
def ringtree(capsys: pytest.CaptureFixture[str]) -> Ringtree:
    """`ringtree("show", "ring")` as from a shell."""

    def call(*words: str) -> Said:
        try:
            code = main(words)
        except SystemExit as exit:  # argparse's way to end
            code = int(exit.code or 0)
        return Said(code, *capsys.readouterr())

    return call
