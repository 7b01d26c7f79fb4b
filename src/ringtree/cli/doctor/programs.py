"""Other programs, asked for their versions in processes of their own: what they do there harms nobody here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ASKED_S = 10.0


def find(name: str) -> str:
    """The program's path: from PATH, or beside this Python; "" where it is not here."""
    beside = Path(sys.executable).parent
    return shutil.which(name) or shutil.which(name, path=str(beside)) or ""


def ask(words: Sequence[str], seconds: float = ASKED_S, **variables: str) -> tuple[str, str]:
    """(the program's output, "") or ("", the reason why there is none, in a line)."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            env={**os.environ, **variables},
        )
    except subprocess.TimeoutExpired:
        return "", f"no answer within {seconds:g} s"
    except OSError as error:
        return "", f"it does not start: {error.strerror}"
    text = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        last = text.rpartition("\n")[2].strip()[:200]
        return "", f"it ended with code {done.returncode}{': ' if last else ''}{last}"
    return text, ""
