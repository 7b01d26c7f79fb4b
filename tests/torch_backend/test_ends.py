"""A process that ends, or destroys its group, with calls under way."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

Ends = dict[str, list[tuple[int, str]]]

CODES = {"an_exit_code": 3}
PROGRAMS = (  # of ends.py, which imports torch
    "forgotten_works",
    "a_forgotten_message",
    "a_future_that_nobody_else_comes_for",
    "a_message_that_never_comes",
    "a_callback_that_waits_for_nobody",
    "a_callback_that_sleeps",
    "an_exit_code",
    "a_mismatch",
    "a_fork",
    "destroyed",
    "destroyed_while_another_rank_hangs",
    "interrupted",
)


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Ends:
    folder = tmp_path_factory.mktemp("ends")
    subprocess.run([sys.executable, "-m", "tests.torch_backend.ends", str(folder)], check=True)
    found: Ends = json.loads((folder / "ends.json").read_text())
    assert tuple(found) == PROGRAMS
    return found


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name != "a_mismatch"])
def test_an_end_is_quick_and_quiet(ends: Ends, program: str) -> None:
    assert ends[program] == [[CODES.get(program, 0), ""]] * 2


def test_a_mismatch_is_a_line_and_a_failure(ends: Ends) -> None:
    (code, text), other = ends["a_mismatch"]
    assert (code, other) == (1, [0, ""])
    assert re.fullmatch(r"ringtree: rank 1 left the group without call \d+, which rank 0 made: broadcast\(.*\n", text)
