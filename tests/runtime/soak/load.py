"""Processes that keep the cores busy in bursts, so that ranks lose their core at any moment.

python -m tests.runtime.soak.load PID        one of them: it ends with the process PID that started it
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]
BURST_S, PAUSE_S = 0.03, 0.015
"""The longest."""
_PR_SET_PDEATHSIG = 1


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keeps that many cores busy while the block runs."""
    command = [sys.executable, "-m", "tests.runtime.soak.load", str(os.getpid())]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(processes):
            started.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL))
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def die_with(parent: int) -> None:
    """Ends this process when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def burn(parent: int) -> None:
    die_with(parent)
    while True:
        until = time.monotonic() + random.uniform(0, BURST_S)
        while time.monotonic() < until:
            pass
        time.sleep(random.uniform(0, PAUSE_S))


if __name__ == "__main__":
    burn(int(sys.argv[1]))
