"""Ranks of `spawn` and of a pool whose parent ends: they end with it, and not before."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ringtree import Pool
from tests.runtime.launch.test_launch import children
from tests.waiting import until

HEAD = r"""
import os, sys, threading, time
import numpy as np
import ringtree

def all_reduces(comm):
    os.write(1, b"ready\n")
    while True:
        comm.all_reduce(np.ones(1))

def receives(comm):
    os.write(1, b"ready\n")
    comm.recv(np.ones(1), 1) if comm.rank == 0 else time.sleep(1000)

def computes(comm):
    os.write(1, b"ready\n")
    while True:
        pass

def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("what", ["all_reduces", "receives", "computes"])
def test_ranks_end_with_a_parent_that_a_signal_ends(what: str, number: signal.Signals) -> None:
    ended_by(number, f"ringtree.spawn({what}, 2)")


def test_ranks_of_a_thread_end_with_its_process() -> None:
    ended_by(signal.SIGKILL, "in_thread(lambda: ringtree.spawn(receives, 2))")


def ended(pid: int) -> bool:
    """Whether a process has ended, which init may yet have to collect."""
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def ended_by(number: signal.Signals, text: str) -> None:
    pytest.importorskip("ringtree._native")
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        ready = [parent.stdout.readline() for _ in range(2)]
        ranks = children(parent.pid)
        parent.send_signal(number)
        until(lambda: all(map(ended, ranks)))
    assert (ready, len(ranks)) == (["ready\n"] * 2, 2)
    assert parent.returncode == -number


def rank_of(comm: object) -> int:
    return comm.rank  # type: ignore[attr-defined, no-any-return]


def test_ranks_of_a_thread_outlive_it() -> None:
    pytest.importorskip("ringtree._native")
    pools: list[Pool] = []
    thread = threading.Thread(target=lambda: pools.append(Pool(2)))
    thread.start()
    thread.join()
    with pools[0] as pool:
        assert pool.run(rank_of) == [0, 1]
