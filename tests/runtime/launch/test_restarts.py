"""Ranks of an elastic job that are started again, and those that cannot be."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def elastic(file: Path, ranks: int, restarts: int) -> subprocess.CompletedProcess[str]:
    """A job by the command itself: its ranks may take its descriptors."""
    command = [sys.executable, "-m", "ringtree.cli", "run", "--elastic", "-n", str(ranks), "--max-restarts"]
    return subprocess.run([*command, str(restarts), str(file)], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        ('rm "$0"', r"No such file or directory: .*/program"),
        ('chmod -x "$0"', r"Permission denied: .*/program"),
        ("prlimit --pid $PPID --nofile=8:", r"Too many open files( \(RLIMIT_NOFILE is 8: .*\))?"),
    ],
    ids=["file", "right", "descriptors"],
)
def test_a_restart_that_cannot_be_made_leaves_the_others_alone(tmp_path: Path, loss: str, reason: str) -> None:
    file = tmp_path / "program"
    file.write_text(f"""#!/bin/sh
cd {tmp_path}
if [ $RANK = 1 ]; then
    until [ -e here0 ] && [ -e here2 ]; do sleep 0.02; done
    {loss}; echo $$ > 1.new; mv 1.new 1; kill -9 $$
fi
echo > here$RANK
until [ -e 1 ]; do sleep 0.02; done
while [ -e /proc/$(cat 1) ]; do sleep 0.02; done
sleep 0.3; echo went on
""")
    file.chmod(0o755)
    done = elastic(file, 3, 1)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0] went on", "[2] went on"])
    line = rf"ringtree run: rank 1 was killed by SIGKILL; after that rank 1 could not be started again: {reason}; "
    assert re.fullmatch(rf"{line}ranks 0, 2 went on to the end\n", done.stderr)
