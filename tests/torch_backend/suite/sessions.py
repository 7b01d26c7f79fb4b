"""The processes of a test: they share a session, and whatever they start is in it too."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path


def _processes(session: int) -> Iterator[Path]:
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.getsid(int(process.name)) == session:
                yield process
        except ProcessLookupError:
            continue


def has_gloo_thread(session: int) -> bool:
    for process in _processes(session):
        try:
            names = [(thread / "comm").read_text() for thread in (process / "task").iterdir()]
        except OSError:
            continue
        if any("gloo" in name for name in names):
            return True
    return False


def signal_session(session: int, number: signal.Signals) -> None:
    for process in _processes(session):
        try:
            os.kill(int(process.name), number)
        except ProcessLookupError:
            continue


def end_session(session: int) -> None:
    signal_session(session, signal.SIGKILL)
