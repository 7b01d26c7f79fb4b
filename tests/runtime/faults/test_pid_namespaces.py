"""Ranks in pid namespaces of their own, as in a container each: the same process id says nothing of who lives."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, time, ringtree
comm = ringtree.init(timeout_s=30)
comm.barrier()
print(os.getpid(), flush=True)
if comm.rank == 1:
    sys.stdin.read()
try:
    comm.barrier()
except ringtree.PeerDied as error:
    print(error, flush=True)
"""
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="a pid namespace needs root and unshare")
def test_the_death_of_a_rank_of_the_same_id_is_noticed() -> None:
    job = {**os.environ, "RINGTREE_WORLD_SIZE": "2", "RINGTREE_JOB": f"pid-namespaces-{os.getpid()}"}
    first, second = (
        subprocess.Popen(
            [*APART, sys.executable, "-c", PROGRAM],
            env={**job, "RINGTREE_RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    )
    try:
        assert first.stdout is not None and second.stdout is not None
        assert first.stdout.readline() == second.stdout.readline() == "1\n"
        second.send_signal(signal.SIGKILL)
        out, _ = first.communicate(timeout=20)
        assert "rank 1 died" in out
    finally:
        for each in (first, second):
            each.kill()
            each.communicate()
