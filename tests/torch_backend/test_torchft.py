"""torchft's manager over groups of ringtree: a killed replica is named and comes back, and all train as one process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.runtime.hosts.lab import Lab
from tests.waiting import until

REPLICAS = 3
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchft") is None, reason="no torchft: pip install torchft==0.2.0"
)


def _train(folder: Path, backend: str, lab: Lab | None, *victim: int) -> list[Any]:
    """What each replica wrote. A killed one is started again."""
    replicas: list[subprocess.Popen[bytes]] = []

    def start(replica: int) -> subprocess.Popen[bytes]:
        address = lab.address(replica) if lab else "localhost"
        words = [str(folder), str(replica), str(REPLICAS), address, backend, *map(str, victim)]
        command = [*(lab.command(replica) if lab else []), sys.executable, "-m", "tests.torch_backend.replicas", *words]
        with (folder / f"{replica}.txt").open("ab") as printed:
            return subprocess.Popen(command, cwd=ROOT, stdout=printed, stderr=printed)

    def ended() -> bool:
        for replica, process in enumerate(replicas):
            if process.poll() in (-9, 137) and replica in victim:
                replicas[replica] = start(replica)
        return all(process.poll() is not None for process in replicas)

    try:
        replicas.extend(start(replica) for replica in range(REPLICAS))
        until(ended)
    finally:
        for process in replicas:
            process.kill()
            process.wait()
    import torch

    printed = [(folder / f"{replica}.txt").read_text()[-3000:] for replica in range(REPLICAS)]
    assert [process.returncode for process in replicas] == [0] * REPLICAS, "\n".join(printed)
    return [torch.load(folder / f"{replica}.pt") for replica in range(REPLICAS)]


def _as_one_process(found: list[Any]) -> None:
    """All replicas have come to the parameters of one process after as many steps."""
    import torch

    from tests.torch_backend import elastic

    (steps,) = {steps for _, steps, _ in found}
    alone = elastic.model()
    for step in range(steps):
        elastic.train(alone, step, 0, 1)
    for _, _, parameters in found:
        for name, value in alone.state_dict().items():
            torch.testing.assert_close(parameters[name], value)


def _goes_on_without_and_with_it_again(found: list[Any], named: str) -> None:
    """torchft may discard a step more, while a replica fetches the parameters."""
    for steps, _, _ in found[:2]:
        (lost,) = [at for at, (_, _, failed) in enumerate(steps) if named in failed] or [None]
        assert lost is not None, steps
        assert steps[lost + 1][:2] == (steps[lost][0], REPLICAS - 1)  # the same step once more
    assert {steps[-1][1:] for steps, _, _ in found} == {(REPLICAS, "")}
    _as_one_process(found)


@pytest.mark.parametrize("backend", ["ringtree", "gloo"])
def test_replicas_train_as_one_process(backend: str, tmp_path: Path) -> None:
    _as_one_process(_train(tmp_path, backend, None))


def test_a_killed_replica_is_named_and_comes_back(tmp_path: Path) -> None:
    _goes_on_without_and_with_it_again(_train(tmp_path, "ringtree", None, 2), ": rank 2 died (process ")


def test_a_killed_replica_of_another_host_is_named_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    _goes_on_without_and_with_it_again(_train(tmp_path, "ringtree", lab, 2), ": rank 2 is out of reach (")
