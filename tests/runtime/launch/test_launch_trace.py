"""`ringtree run --trace`: real processes and their trace files, also of processes that fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ringtree.formats import chrome
from ringtree.ir.trace import Event, Trace
from ringtree.runtime.launch.launch import run

HEAD = """
import os, sys
import numpy as np
import ringtree
"""
CALLS = """
comm = ringtree.init(timeout_s=60)
x = np.ones(500, np.float32)
for _ in range(5):
    comm.all_reduce(x, algorithm="ring")
"""


def traced(folder: Path, text: str, ranks: int) -> tuple[int, Path]:
    program, file = folder / "program.py", folder / "trace.json.gz"
    program.write_text(HEAD + text)
    return run([str(program), "one", "two"], ranks, trace=file), file


def sends(trace: Trace) -> list[int]:
    return [int(np.sum((trace.kind == Event.SEND) & (trace.rank == rank))) for rank in range(trace.ranks)]


def test_the_events_of_all_ranks_since_init_are_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, file = traced(tmp_path, CALLS + "comm.group([2, 0]).barrier() if comm.rank != 1 else None\n", 3)
    trace = chrome.read(file)
    assert code == 0
    assert capfd.readouterr().err == ""
    assert trace.ranks == 3
    assert trace.calls[0] == "all_reduce(float32, sum, count 500) by ring"
    assert trace.facts["channel 1"] == "ranks 2, 0"
    assert trace.facts["name"].endswith("program.py one two")
    assert sends(trace.take(trace.channel == 0)) == [20, 20, 20]
    assert set(trace.rank[trace.channel == 1].tolist()) == {0, 2}
    send, wait = trace.messages()
    assert len(send) == sum(sends(trace))
    assert (trace.end_s[wait] >= trace.start_s[send]).all()


def test_a_program_may_record_by_itself_and_make_several_worlds(tmp_path: Path) -> None:
    text = (
        CALLS
        + "comm.close()\n"
        + CALLS
        + "with comm.trace() as r: comm.barrier()\nassert r.trace.sent_nbytes().sum() == 8\n"
    )
    code, file = traced(tmp_path, text, 2)
    trace = chrome.read(file)
    assert code == 0
    assert set(trace.channel.tolist()) == {0, 1}
    assert sends(trace.take(trace.channel == 0)) == [10, 10]


def test_a_rank_that_raises_leaves_its_events(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, file = traced(tmp_path, CALLS + "assert comm.rank != 1, 'on purpose'\ncomm.barrier()\n", 3)
    assert code == 1
    assert "on purpose" in capfd.readouterr().err
    assert [n >= 20 for n in sends(chrome.read(file))] == [True, True, True]


def test_of_a_rank_that_is_killed_the_others_are_left(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, file = traced(tmp_path, CALLS + "if comm.rank == 1: os.kill(os.getpid(), 9)\ncomm.barrier()\n", 3)
    trace = chrome.read(file)
    assert code == 128 + 9
    assert f"ringtree run: {file} has nothing of rank 1" in capfd.readouterr().err
    assert trace.facts["missing"] == "rank 1"
    assert [n >= 20 for n in sends(trace)] == [True, False, True]


def test_of_a_rank_that_ends_without_pythons_exit_no_death_is_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, file = traced(tmp_path, CALLS + "comm.barrier()\nif comm.rank == 1: os._exit(0)\n", 2)
    why = "a rank that is killed, or ends by os._exit or exec, leaves nothing"
    assert (code, capfd.readouterr().err) == (0, f"ringtree run: {file} has nothing of rank 1: {why}\n")


def test_a_rank_without_room_for_its_events_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A limit on the length of files stands for a full disk."""
    text = """
import resource, signal
if comm.rank == 1:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
"""
    code, file = traced(tmp_path, CALLS + text, 3)
    trace = chrome.read(file)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ringtree run: {file} has nothing of rank 1: a recording could not be written to ")
    assert line.endswith(": File too large")
    assert (code, trace.facts["missing"]) == (1, "rank 1")
    assert [n >= 20 for n in sends(trace)] == [True, False, True]


@pytest.mark.parametrize("text", ["", "import ringtree\nos.environ.pop('RINGTREE_TRACE_FOLDER')\nringtree.init()\n"])
def test_a_trace_without_ranks_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str) -> None:
    code, file = traced(tmp_path, text, 2)
    assert code == 1
    assert capfd.readouterr().err == f"ringtree run: {file} is not written: no rank called ringtree.init()\n"
    assert not file.exists()


def test_forks_of_a_rank_leave_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, file = traced(tmp_path, CALLS + "if os.fork() == 0: sys.exit(0)\nos.wait()\ncomm.barrier()\n", 2)
    assert code == 0
    assert capfd.readouterr().err == ""
    assert sends(chrome.read(file)) == [11, 11]


def test_a_job_within_a_job_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_TRACE_FOLDER", str(tmp_path / "outer"))
    program = tmp_path / "program.py"
    program.write_text("import os\nassert 'RINGTREE_TRACE_FOLDER' not in os.environ\n")
    assert run([str(program)], 1) == 0
