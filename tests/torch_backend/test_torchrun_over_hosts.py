"""torchrun on several hosts, an agent each, with nothing of ringtree's set: training, and a restart after a death."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.runtime.hosts.conftest import Layout
from tests.runtime.hosts.lab import Lab

STEPS = 4
PORT = 29601
LARGER: list[Layout] = [(2, 2), (1, 1, 1)]
"""What the long campaign alone starts."""


def _torchrun(lab: Lab, layout: Layout, folder: Path, *words: str, rendezvous: str = "static") -> list[str]:
    """Runs the program on every host; what each agent printed."""
    agents = []
    for host, here in enumerate(layout):
        meets = ["--master-addr", lab.address(0), "--master-port", str(PORT), "--node-rank", str(host)]
        if rendezvous == "c10d":  # the names of a lab's hosts are in no table: torch cannot find the endpoint's host
            at = ["--rdzv-endpoint", f"{lab.address(0)}:{PORT}", "--local-addr", lab.address(host)]
            at += ["--rdzv-conf", f"is_host={int(host == 0)}"]
            meets = ["--rdzv-backend", "c10d", "--rdzv-id", "test", *at, "--max-restarts", "2"]
        run = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(layout)), *meets]
        program = ["--nproc-per-node", str(here), str(ROOT / "tests/torch_backend/elastic.py"), str(folder), str(STEPS)]
        command = [*lab.command(host), *run, *program, *words]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RINGTREE_")} | {"OMP_NUM_THREADS": "1"}
        agents.append(subprocess.Popen(command, env=environment, text=True, stdout=-1, stderr=subprocess.STDOUT))
    try:
        printed = [agent.communicate(timeout=250)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    assert [agent.returncode for agent in agents] == [0] * len(layout), "\n".join(printed)
    return printed


def _as_one_process(folder: Path, ranks: int) -> list[tuple[int, int]]:
    """Every rank has the parameters of one process; how often each was started, and the step it began at."""
    import torch

    from tests.torch_backend.elastic import model, train

    alone = model()
    for step in range(STEPS):
        train(alone, step, 0, 1)
    found = [torch.load(folder / f"rank{rank}.pt") for rank in range(ranks)]
    for _, _, parameters in found:
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(parameters[name], value)
    return [(attempt, begin) for attempt, begin, _ in found]


@pytest.mark.parametrize("layout", [(1, 1), *(pytest.param(n, marks=pytest.mark.slow) for n in LARGER)])
def test_training_as_in_one_process(lab: Lab, tmp_path: Path, layout: Layout) -> None:
    _torchrun(lab, layout, tmp_path)
    assert _as_one_process(tmp_path, sum(layout)) == [(0, 0)] * sum(layout)


@pytest.mark.slow
def test_a_killed_rank_is_named_and_training_goes_on_from_the_checkpoint(lab: Lab, tmp_path: Path) -> None:
    layout = (2, 2)
    printed = _torchrun(lab, layout, tmp_path, "3", "2", rendezvous="c10d")
    found = _as_one_process(tmp_path, sum(layout))
    assert {begin for _, begin in found} == {2}
    story = "".join(printed)
    assert "rank 3 is out of reach" in story or "rank 3 died" in story, story
