"""Programs of torch's under `ringtree run`, on one host and over ssh on several, and their traces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ringtree.formats import chrome
from ringtree.ir.host_clocks import host_clocks, hosts_of
from ringtree.ir.host_links import host_links
from tests.conftest import ROOT
from tests.runtime.hosts.lab import CLOCK_APART_S, Lab
from tests.runtime.hosts.launched import Launched

DDP = str(ROOT / "examples/ddp.py")
STEPS = ["step  20", "step  40", "step  60", "step  80", "step 100"]
LONGEST_S = 1000.0
"""Far longer than the training takes, far shorter than the clocks of hosts are apart."""


@pytest.mark.slow
def test_the_default_group_is_in_the_trace(tmp_path: Path) -> None:
    file = tmp_path / "ddp.json.gz"
    words = [sys.executable, "-m", "ringtree.cli", "run", "-n", "2", "--trace", str(file), DDP]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line[4:12] for line in done.stdout.splitlines()] == STEPS
    trace = chrome.read(file)
    assert any(call.startswith("all_reduce(float32") for call in trace.calls)
    assert set(trace.rank[trace.channel == 0].tolist()) == {0, 1}


def test_over_hosts_too_in_one_time(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "ddp.json.gz"
    code, out, complaints = Launched("lab0:1,lab1:1", "--trace", str(file), DDP, lab=lab).end()
    assert (code, complaints) == (0, []), out
    assert [line.split("] ")[1][:8] for line in out.splitlines()] == STEPS
    trace = chrome.read(file)
    assert any(call.startswith("all_reduce(float32") for call in trace.calls)
    assert hosts_of(trace).tolist() == [0, 1] and trace.makespan_s < LONGEST_S
    (clock,) = host_clocks(trace).values()
    assert abs(clock.offset_s - CLOCK_APART_S) <= clock.error_s
    assert {(link.source, link.target) for link in host_links(trace)} == {(0, 1), (1, 0)}


@pytest.mark.slow
def test_as_torchruns_in_every_number(lab: Lab) -> None:
    """The losses are those of torchrun on one host."""
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", DDP]
    torchruns = subprocess.run(words, capture_output=True, text=True, timeout=120)
    code, out, _ = Launched("lab0:1,lab1:1", DDP, lab=lab).end()
    assert code == torchruns.returncode == 0
    assert [line.split("] ")[1] for line in out.splitlines()] == torchruns.stdout.splitlines()
