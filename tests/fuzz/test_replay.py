"""The inputs to begin with, and those that a fuzzer has found: each is read, or refused as its reader says, soon."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS, Target

CORPUS = Path(__file__).parent / "corpus"
MOST_S = 5.0


def inputs(name: str) -> Iterator[tuple[str, bytes]]:
    """Each input of a target, and what it is called."""
    for number, seed in enumerate(TARGETS[name].seeds()):
        yield f"seed {number}", seed
    for path in sorted((CORPUS / name).glob("*")):
        yield path.name, path.read_bytes()


@pytest.mark.parametrize("name", TARGETS)
def test_kept_inputs_are_read_or_refused(name: str) -> None:
    for called, data in inputs(name):
        began = time.monotonic()
        try:
            TARGETS[name].run(data)
        except Exception as error:
            raise AssertionError(f"{name}, {called}: {type(error).__name__}: {error}") from error
        assert time.monotonic() - began < MOST_S, f"{name}, {called}"


def test_what_is_kept_belongs_to_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)


def test_a_reader_that_raises_something_else_is_found() -> None:
    def read(data: bytes) -> None:
        raise KeyError(data) if data else ValueError("two\nlines")

    with pytest.raises(KeyError):
        Target(read, (ValueError,), list).run(b"x")
    with pytest.raises(AssertionError, match="more than a line"):
        Target(read, (ValueError,), list).run(b"")
