"""`ringtree tune` by ranks of several hosts measures the network between them, and calls are planned by it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtree.bench import tuned_text
from ringtree.runtime import tuned
from ringtree.topology import load
from tests.runtime.hosts.conftest import made_lab
from tests.runtime.hosts.lab import Lab

LINK_BPS = 62.5e6
"""Slow enough that a busy machine keeps up."""
CHOSEN = """
import json, ringtree
comm = ringtree.init()
twin = comm.duplicate()
found = [group.where for group in (comm, twin)]
why = comm.chosen("all_reduce", 1 << 20).why
print(json.dumps([[(w.latency_s, w.bandwidth_Bps, w.message_s) for w in found], why]))
twin.close(); comm.close()
"""


@pytest.fixture(scope="module")
def slow_links() -> Iterator[Lab]:
    for _ in made_lab():  # skips where none can be made
        break
    with Lab(2, "500mbit") as made:
        yield made


def on_hosts(lab: Lab, port: int, file: Path, *words: str) -> list[str]:
    """What each rank prints, one a host."""
    running = [
        subprocess.Popen(
            [*lab.command(rank), sys.executable, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ
            | {
                "RINGTREE_RANK": str(rank),
                "RINGTREE_WORLD_SIZE": "2",
                "RINGTREE_ADDRESS": f"{lab.address(0)}:{port}",
                "RINGTREE_TIMEOUT": "30",
                tuned.VARIABLE: str(file) if rank == 0 else str(file) + " of rank 0 alone",
            },
        )
        for rank in range(2)
    ]
    try:
        shown = [process.communicate(timeout=60)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], shown
    return shown


def test_the_network_is_measured_and_planned_by(slow_links: Lab, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    tune = ("-m", "ringtree.cli", "tune", "-n", "2", "--seconds", "0.3", "--maxbytes", "64K")
    first, second = on_hosts(slow_links, 29500, file, *tune, "--output", str(file))
    assert "between hosts: a message " in first and second == ""
    found = tuned.read(file)
    assert found.network is not None and found.ranks == (2,)
    assert 0.5 < found.network.bandwidth_Bps / LINK_BPS < 1.25  # the default is 20 times that
    assert 0 < found.network.latency_s < 0.01 and 0 < found.network.message_s < 0.01
    assert found.host_of == (0, 1) and " of payload each way (2 ranks on 2 hosts: 1, 1)" in first
    assert load(file).hosts.tolist() == [0, 1]

    rows = [json.loads(line) for line in on_hosts(slow_links, 29501, file, "-c", CHOSEN)]
    for costs, why in rows:
        assert costs == [[found.network.latency_s, found.network.bandwidth_Bps, found.network.message_s]] * 2
        assert f"GB/s between them, measured on {found.date}" in why


def test_a_host_that_is_measured_alone_keeps_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ringtree.cli import main
    from ringtree.price import BUILT_IN, NetworkCost

    file, network = tmp_path / "machine.json", NetworkCost(1e-3, 250e6, "measured on a Sunday")
    file.write_text(tuned_text.text(BUILT_IN, (2,), "a Sunday", network, (0, 1)))
    assert main(["tune", "-n", "2", "--seconds", "0.1", "--maxbytes", "64", "--output", str(file)]) == 0
    found = tuned.read(file)
    assert found.date != "a Sunday" and found.network == network and found.network.source == network.source
    assert found.host_of == (0, 1)
    assert "between hosts" not in capsys.readouterr().out
