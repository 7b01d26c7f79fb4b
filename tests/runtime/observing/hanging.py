"""A job that hangs, in processes of its own: rank 0 waits for 1 in a group of two, 1 for 2, and 2 is in no call."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringtree.runtime.observing.worlds import ObservedWorld, worlds
from tests.waiting import until

PROGRAM = """
import time
import numpy as np
import ringtree

def outside_of_calls():
    time.sleep(600)

comm = ringtree.init(timeout_s=500)
pair = comm.group([0, 1]) if comm.rank < 2 else None
x = np.ones(8, np.float32)
comm.all_reduce(x)
comm.all_reduce(x)
if comm.rank == 0:
    pair.broadcast(x, root=1)
elif comm.rank == 1:
    comm.recv(x, 2, tag=7)
else:
    outside_of_calls()
"""


def found(program: Path) -> list[ObservedWorld]:
    """The worlds of a program's ranks."""
    return [world for world in worlds() if str(program) in world.command]


def calls_of(world: ObservedWorld) -> list[str]:
    """The calls in which the ranks wait."""
    return [" ".join(re.split("[, ]", wait.where)[0] for wait in rank.waits) for rank in world.ranks]


@contextmanager
def hanging_job(folder: Path, **env: str) -> Iterator[ObservedWorld]:
    """The job's world, once two of its ranks are in the waits that do not end."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "-m", "ringtree.cli", "run", "-n", "3", str(program)],
        env={**os.environ, **env},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:

        def hang() -> list[ObservedWorld]:
            assert process.poll() is None
            return [world for world in found(program) if calls_of(world) == ["broadcast", "recv", ""]]

        until(lambda: bool(hang()))
        (world,) = hang()
        yield world
    finally:
        process.terminate()
        process.wait()
