"""`ringtree ps` of a job that hangs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ringtree.cli import one_line
from ringtree.cli.ps import lines
from ringtree.runtime.observing.worlds import ObservedWorld
from tests.cli.conftest import Ringtree
from tests.runtime.observing.hanging import hanging_job
from tests.waiting import until


def test_ps_shows_each_rank_and_who_holds_up_whom(ringtree: Ringtree, tmp_path: Path) -> None:
    with hanging_job(tmp_path) as world:
        result = ringtree("ps", "--json", str(tmp_path / "groups.json"))
    assert (result.code, result.err) == (0, "")
    mine = result.out[result.out.index(f"{world.job}: 3 ranks, ") :].split("\n\n")[0].splitlines()
    expected = (
        r"rank +pid  state",
        rf"0 +{world.ranks[0].pid}  waits for rank 1 since [\d.]+ m?s, up to \d+ s more, in broadcast, call 1 "
        r"of the group of ranks 0, 1",
        rf"1 +{world.ranks[1].pid}  waits for rank 2 since [\d.]+ m?s, up to \d+ s more, in recv.*tag 7.*",
        rf"2 +{world.ranks[2].pid}  in no long wait; the last collective is call 2, "
        r"all_reduce\(float32, sum, count 8\)",
        r"rank 2 holds up rank 1",
    )
    assert len(mine) == 1 + len(expected)
    for line, pattern in zip(mine[1:], expected, strict=True):
        assert re.fullmatch(rf" +{pattern}", line), line
    groups = json.loads((tmp_path / "groups.json").read_text())["groups"]
    assert world.job in [group["job"] for group in groups]


def test_a_text_of_the_jobs_moves_no_cursor() -> None:
    world = ObservedWorld("job", "train\x1b[2J", True, "rank 0: \x1b]0;title\x07gone", (), ())
    text = "".join(lines(world, 0))
    assert text.isprintable() and "failed: rank 0: \N{REPLACEMENT CHARACTER}]0;title" in text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_named(unbuffered: str) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "ringtree.cli", "ps"]
        done = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "ringtree ps: standard output: No space left on device\n"


def test_a_name_of_a_file_in_an_error_moves_no_cursor() -> None:
    for error in (FileNotFoundError(2, "x", "a\x1b[2J"), PermissionError(13, "no\x1b[2J", "a\nb\x1b[2J")):
        assert one_line(error).isprintable()


def test_ps_shows_a_rank_that_is_stopped(ringtree: Ringtree, tmp_path: Path) -> None:
    with hanging_job(tmp_path) as world:
        pid = world.ranks[1].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
            result = ringtree("ps")
        finally:
            os.kill(pid, signal.SIGCONT)
    mine = result.out[result.out.index(f"{world.job}: 3 ranks, ") :].split("\n\n")[0]
    assert re.search(rf"1 +{pid}  its process is stopped: kill -CONT lets it go on\n", mine)
    assert "rank 1 holds up rank 0" in mine
