"""Threads of a rank that has failed hear of it as soon as others do, and so do threads of its peers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ringtree._native")

PROGRAM = """
import os, sys, threading, time
import numpy as np
import ringtree

comm = ringtree.init()
mine = comm.duplicate()
comm.barrier()
case = sys.argv[1]

def note(who, act):
    try:
        act()
    except Exception as error:
        sys.stdout.write(f"{who} {time.time() - begun:.2f} {type(error).__name__} {error}\\n")  # in one piece

def wait(group):  # for a message that never comes: in a ring, so that nobody comes by itself
    group.recv(np.ones(4), (comm.rank + 1) % comm.size)

def main_thread():
    if comm.rank == 2 and case == "main":
        time.sleep(0.2)
        raise ValueError("boom")
    comm.barrier()

def second_thread():
    if comm.rank == 2 and case == "thread":
        mine.all_reduce(np.ones(4))
        time.sleep(0.2)
        raise ValueError("boom")
    if comm.rank != 2 and case == "thread":
        mine.all_reduce(np.ones(4))
    note("second", lambda: wait(mine))

begun = time.time()
thread = threading.Thread(target=second_thread, name="second")
thread.start()
if case == "thread":
    thread.join()
elif comm.rank == 2:
    main_thread()
else:
    note("main", main_thread)
    sys.exit(1)
"""


def run(case: str, folder: Path) -> tuple[str, str]:
    file = folder / "program.py"
    file.write_text(PROGRAM)
    command = [sys.executable, "-m", "ringtree.cli", "run", "-n", "3", str(file), case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout, done.stderr


def test_an_exception_in_the_main_thread_ends_the_waits_of_all_threads(tmp_path: Path) -> None:
    """The second thread of rank 2 waits for peers, whose main threads wait for rank 2's main thread."""
    out, err = run("main", tmp_path)
    heard = [line.split(" ", 4) for line in out.splitlines()]
    assert {(rank, who) for rank, who, *_ in heard} >= {("[0]", "main"), ("[1]", "main"), ("[2]", "second")}, out + err
    for rank, _, seconds, kind, text in heard:
        assert "rank 2 failed with ValueError: boom" in text, text
        assert kind in ("PeerDied", "Poisoned")
        assert float(seconds) < 5, (rank, text)  # with the start of the second thread; the limit of waits is 300
    assert "rank 2 exited with code 1" in err


def test_an_exception_in_a_thread_fails_the_group_that_it_called_last(tmp_path: Path) -> None:
    out, err = run("thread", tmp_path)
    heard = [line.split(" ", 4) for line in out.splitlines()]
    assert {(rank, who) for rank, who, *_ in heard} == {("[0]", "second"), ("[1]", "second")}, out + err
    for _, _, seconds, _, text in heard:
        assert text.startswith("rank 2 aborted the group: its thread second ended; the first cause: ")
        assert text.endswith("rank 2 failed with ValueError: boom")
        assert float(seconds) < 5
