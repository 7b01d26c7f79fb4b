"""Nodes of Ray's that are hosts of their own: ranks meet over their network, and the loss of a node is noticed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ray.conftest import CPUS, ROOT, SETTINGS, STORE_BYTES
from tests.runtime.hosts.lab import Lab, missing
from tests.waiting import until

pytestmark = pytest.mark.ray
HOSTS = 2
PORT = 6379
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
    """A lab whose hosts are nodes of one cluster of Ray's."""
    if why := missing():
        pytest.skip(why)
    ray = Path(sys.executable).parent / "ray"
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RINGTREE_")}
    environment |= SETTINGS | {"PYTHONUNBUFFERED": "1"}
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(Lab(HOSTS))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-"))  # pytest's paths are too long for it
        for host in range(HOSTS):
            where = ["--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={folder}"]
            if host:
                where = [f"--address={made.address(0)}:{PORT}"]
            options = [f"--num-cpus={CPUS}", f"--object-store-memory={STORE_BYTES}"]
            command = [str(ray), "start", "--block", f"--node-ip-address={made.address(host)}", *where, *options]
            output = Path(folder) / f"node{host}.txt"
            with output.open("w") as written:
                node = subprocess.Popen(
                    [*made.command(host), *command],
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            stack.callback(end, node)
            until(lambda node=node, output=output: "--block" in output.read_text() or node.poll() is not None)
            assert node.poll() is None, output.read_text()
        yield made


def end(node: subprocess.Popen[bytes]) -> None:
    """Ends a node: `ray stop` would end all of this machine."""
    node.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        node.wait(10)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.pid, number)
    node.wait()


def test_ranks_meet_over_the_network_and_a_lost_node_is_named(lab: Lab, tmp_path: Path) -> None:
    driver = subprocess.Popen(
        [*lab.command(0), sys.executable, "-c", PROGRAM, f"{lab.address(0)}:{PORT}", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | SETTINGS,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: (tmp_path / "all are here").exists() or driver.poll() is not None)
        lab.link(1, "down")
        found, (rank, why) = json.loads(driver.communicate()[0])
    finally:
        driver.kill()
        driver.wait()
    assert [row[:3] for row in found] == [[r, [0, 0, 1, 1], 10.0] for r in range(4)]
    nodes = [node for *_, node in found]
    assert sorted(nodes) == [lab.address(0)] * CPUS + [lab.address(1)] * CPUS
    assert why.startswith(f"rank {rank} of 4 on node {lab.address(1)} (") and "is out of reach" in why, why
