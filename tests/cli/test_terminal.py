"""What long commands show of their way, on a terminal alone."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    "words, shown",
    [
        (
            ["search", "all_reduce", "--topology", "gh200x4", "--bytes", "1M", "--algorithm", "ring"],
            "algorithms",
        ),
        (["explain", str(ROOT / "examples/slow.log"), "--topology", "gh200x4"], "faults"),
    ],
)
def test_a_bar_is_drawn_where_somebody_waits(words: list[str], shown: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ringtree.cli", *words]
    ours, theirs = pty.openpty()
    seen = b""
    try:
        env = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=env, text=True) as process:
            os.close(theirs)
            assert process.stdout is not None
            out = process.stdout.read()
            while piece := _read(ours):
                seen += piece
        assert process.returncode == 0 and shown.encode() in seen and shown not in out
        plain = subprocess.run(command, capture_output=True, text=True)
        assert plain.stdout == out and not plain.stderr
    finally:
        os.close(ours)


def _read(end: int) -> bytes:
    try:
        return os.read(end, 65536)
    except OSError:  # the other end is closed
        return b""
