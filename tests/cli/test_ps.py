"""`ringtree ps` of a job that hangs."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

from tests.cli.conftest import Ringtree
from tests.runtime.hanging import hanging_job


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


def test_ps_shows_a_rank_that_is_stopped(ringtree: Ringtree, tmp_path: Path) -> None:
    with hanging_job(tmp_path) as world:
        pid = world.ranks[1].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            result = ringtree("ps")
        finally:
            os.kill(pid, signal.SIGCONT)
    mine = result.out[result.out.index(f"{world.job}: 3 ranks, ") :].split("\n\n")[0]
    assert re.search(rf"1 +{pid}  its process is stopped: kill -CONT lets it go on\n", mine)
    assert "rank 1 holds up rank 0" in mine
