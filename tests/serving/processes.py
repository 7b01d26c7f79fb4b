"""Servers as processes: started, ended, and what they printed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

TIMEOUT_S = 240


def started(environment: Mapping[str, str], within: list[str], program: Path, *words: str) -> subprocess.Popen[str]:
    """A Python program with a session of its own. `within`: the command that runs it elsewhere, if any."""
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    return subprocess.Popen(
        [*within, sys.executable, str(program), *words],
        env=environment, stdout=pipe, stderr=both, text=True, start_new_session=True,
    )  # fmt: skip


def ended_first(first: subprocess.Popen[str], second: subprocess.Popen[str]) -> str:
    """All that the first host's program has printed; the second's, which serves it, is ended then. As of `ended`."""
    try:
        return ended(first)
    finally:
        second.terminate()
        ended(second, failing=True)


def ended(process: subprocess.Popen[str], failing: bool = False) -> str:
    """All that a process has printed. RuntimeError where it failed, or has not ended after TIMEOUT_S."""
    try:
        shown, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        shown = f"{process.communicate()[0]}\nnot ended after {TIMEOUT_S} s"
    if process.returncode and not failing:
        raise RuntimeError(shown[-6000:])
    return shown
