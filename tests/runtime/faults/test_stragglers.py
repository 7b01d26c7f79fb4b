"""A slow rank is named before it is a hang: by a warning, and by `comm.health()`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ringtree
from ringtree.runtime.engines.shm import warning_of

LATE = """
import time
import numpy as np
import ringtree
comm = ringtree.init(timeout_s=20)
comm.barrier()
if comm.rank == 2: time.sleep(1.5)
comm.broadcast(np.ones(4), root=2)
"""
CHAIN = """
import time
import numpy as np
import ringtree
comm = ringtree.init(timeout_s=20)
pair = comm.group([0, 1]) if comm.rank < 2 else None
x = np.ones(4)
if pair: pair.broadcast(x, root=1)  # a first call is planned, for long on a busy machine
if comm.rank == 0: pair.broadcast(x, root=1)
elif comm.rank == 1: comm.recv(x, 2); pair.broadcast(x, root=1)
else: time.sleep(3); comm.send(x, 1)
"""
CIRCLE = """
import numpy as np
import ringtree
comm = ringtree.init(timeout_s=1.2)
x = np.ones(4)
comm.barrier()
try: comm.recv(x, (comm.rank + 1) % 3)
except RuntimeError: pass  # whichever comes first
"""


def warnings(folder: Path, text: str, share: str) -> list[str]:
    """The lines that a program of three ranks writes to its standard errors."""
    program = folder / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "ringtree.cli", "run", "-n", "3", str(program)]
    env = {**os.environ, "RINGTREE_WARN_SHARE": share}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "ringtree: rank" in line]


def test_one_of_the_ranks_that_wait_names_the_straggler(tmp_path: Path) -> None:
    (line,) = warnings(tmp_path, LATE, "0.02")
    pattern = (
        r"\[\d\] ringtree: rank \d has waited (0\.\d+|1|1\.\d+) s of at most 20 s for rank 2 in broadcast, call 2 "
        r"\(ringtree stack \d+ shows where that is\)"
    )
    assert re.fullmatch(pattern, line), line


def test_who_waits_for_one_that_waits_says_nothing(tmp_path: Path) -> None:
    (line,) = warnings(tmp_path, CHAIN, "0.04")
    assert line.startswith("[1] ringtree: rank 1 has waited") and "for rank 2 in recv" in line


def test_a_circle_is_named_once(tmp_path: Path) -> None:
    (line,) = warnings(tmp_path, CIRCLE, "0.5")
    assert line.startswith("[0] ringtree: rank 0 has waited")
    assert line.endswith("which waits itself: ranks 0 1 2 of the world wait for each other in a circle")


def test_a_share_of_nothing_warns_never(tmp_path: Path) -> None:
    assert not warnings(tmp_path, CIRCLE, "0")


def test_short_limits_do_not_warn_by_themselves(tmp_path: Path) -> None:
    assert not warnings(tmp_path, CIRCLE, "")


@pytest.mark.parametrize("given", ["x", "-0.1", "1.5", "nan"])
def test_a_share_that_is_none(given: str) -> None:
    with pytest.raises(ValueError, match="expected a share of the timeout from 0"):
        warning_of({"RINGTREE_WARN_SHARE": given})


def test_health_has_the_waits_for_each_rank() -> None:
    def late(comm: ringtree.Communicator) -> list[tuple[str, int, float]]:
        comm.barrier()
        x = np.ones(4)
        if comm.rank == 2:
            time.sleep(0.2)
            comm.send(x, 0)
        elif comm.rank == 0:
            comm.recv(x, 2)
        return [tuple(peer) for peer in comm.health()]

    first, _, _ = ringtree.spawn(late, 3)
    assert {state for state, _, _ in first} <= {"running", "left"}
    assert first[0] == ("running", 0, 0.0) and first[2][1] >= 1 and 0.1 < first[2][2] < 60
