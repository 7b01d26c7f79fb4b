"""`ringtree bench --hosts` and `ringtree tune --hosts` start their own ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtree.runtime import tuned
from tests.runtime.hosts.conftest import made_lab
from tests.runtime.hosts.lab import Lab
from tests.runtime.hosts.launched import ssh


@pytest.fixture(scope="module")
def pair() -> Iterator[Lab]:
    yield from made_lab()


def done(lab: Lab, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ringtree.cli", *words, "--ssh", ssh(lab)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
    )


def test_bench_has_ranks_in_the_slots(pair: Lab, tmp_path: Path) -> None:
    words = ("-b", "8", "-e", "1K", "--iters", "5", "--json", "rows.json")
    bench = done(pair, tmp_path, "bench", "all_to_all", "--hosts=lab0:2,lab1:2", "-n3", *words)
    assert bench.returncode == 0, bench.stderr
    assert "all_to_all, 3 processes on 2 hosts" in bench.stdout and bench.stdout.count("#       size") == 1
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert {(row["ranks"], row["wrong"]) for row in rows} == {(3, 0)} and len(rows) == 3


def test_tune_has_a_rank_on_each_host(pair: Lab, tmp_path: Path) -> None:
    words = ("-n", "2", "--seconds", "0.3", "--maxbytes", "64K", "--output", "machine.json")
    tune = done(pair, tmp_path, "tune", "--hosts", "lab0:4,lab1", *words)
    assert tune.returncode == 0 and "between hosts: a message " in tune.stdout, tune.stderr
    found = tuned.read(tmp_path / "machine.json")
    assert found.network is not None and (found.host_of, found.ranks) == ((0, 1), (2,))
