"""Nodes of Ray's that are hosts of their own: ranks meet over their network, and the loss of a node is noticed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ray.conftest import CPUS
from tests.ray.nodes import address_of, driver, nodes_on_hosts
from tests.ray.training import as_one_process
from tests.runtime.hosts.lab import Lab, missing
from tests.waiting import until

pytestmark = pytest.mark.ray
PROGRAM = """
import json, os, pathlib, sys, time
import numpy as np, ray, ringtree.ray
from ringtree.errors import RankFailed
from tests.waiting import until

folder = pathlib.Path(sys.argv[2])

def meets(comm):
    total = float(comm.all_reduce(np.full(1 << 16, comm.rank + 1.0))[-1])
    return comm.rank, comm.hosts, total, ray.util.get_node_ip_address()

def goes_on(comm):
    comm.barrier()
    (folder / "all are here").touch()
    while True:
        comm.barrier()

ray.init(address=sys.argv[1], log_to_driver=False)
until(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)
found = ringtree.ray.run(meets, 4, per_node=2)
try:
    ringtree.ray.run(goes_on, 4, per_node=2)
except RankFailed as failed:
    named = [failed.rank, str(failed).splitlines()[0]]
print(json.dumps([found, named]), flush=True)
os._exit(0)  # without a word to the node that is cut off
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two hosts that are the nodes of one cluster; the last test of this file cuts one off."""
    if why := missing():
        pytest.skip(why)
    with nodes_on_hosts(2) as made:
        yield made


def ended(program: subprocess.Popen[str]) -> Any:
    """What a driver prints in its last line, at its end."""
    try:
        return json.loads(program.communicate()[0].splitlines()[-1])
    finally:
        program.kill()
        program.wait()


def test_a_collective_group_of_actors_on_two_hosts(lab: Lab) -> None:
    found = ended(driver(lab, "-m", "tests.ray.members", address_of(lab), "2"))
    hosts = found[0][0]
    assert sorted(hosts) in ([0, 0, 1], [0, 1, 1]) and found == [[hosts, 6.0]] * 3


@pytest.mark.torch
def test_the_torch_trainer_goes_on_after_a_killed_worker(lab: Lab, tmp_path: Path) -> None:
    words = ["2", str(tmp_path), "4", "1", "killed", "2"]
    found = ended(driver(lab, "-m", "tests.ray.training", address_of(lab), *words))
    assert found["failure"] == ""
    ranks = found["ranks"]
    assert [rank["hosts"] for rank in ranks] == [[0, 0, 1, 1]] * 4
    assert sorted(rank["node"] for rank in ranks) == [lab.address(0)] * 2 + [lab.address(1)] * 2
    assert {rank["begin"] for rank in ranks} & {1, 2}  # Ray may not have kept the last checkpoint yet
    as_one_process(ranks)


@pytest.mark.slow
@pytest.mark.torch
def test_the_torch_trainer_goes_on_without_a_lost_node(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    with nodes_on_hosts(3) as lab:
        trains = driver(lab, "-m", "tests.ray.training", address_of(lab), "3", str(tmp_path), "4", "1", "stay", "2")
        until(lambda: (tmp_path / "ranks" / "fault").exists() or trains.poll() is not None)
        lab.link(2, "down")
        found = ended(trains)
    assert found["failure"] == ""
    assert [rank["hosts"] for rank in found["ranks"]] == [[0, 0, 1, 1]] * 4
    as_one_process(found["ranks"])


def test_ranks_meet_over_the_network_and_a_lost_node_is_named(lab: Lab, tmp_path: Path) -> None:
    program = driver(lab, "-c", PROGRAM, address_of(lab), str(tmp_path))
    try:
        until(lambda: (tmp_path / "all are here").exists() or program.poll() is not None)
        lab.link(1, "down")
        found, (rank, why) = json.loads(program.communicate()[0])
    finally:
        program.kill()
        program.wait()
    assert [row[:3] for row in found] == [[r, [0, 0, 1, 1], 10.0] for r in range(4)]
    nodes = [node for *_, node in found]
    assert sorted(nodes) == [lab.address(0)] * CPUS + [lab.address(1)] * CPUS
    assert why.startswith(f"rank {rank} of 4 on node {lab.address(1)} (") and "is out of reach" in why, why
