"""A cluster of Ray's whose nodes are hosts of a lab, and programs that drive it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.ray.conftest import CPUS, ROOT, SETTINGS, STORE_BYTES
from tests.runtime.hosts.lab import Lab
from tests.waiting import until

PORT = 6379


@contextlib.contextmanager
def nodes_on_hosts(hosts: int) -> Iterator[Lab]:
    """A lab whose hosts are nodes of one cluster of Ray's, with its head on host 0."""
    ray = Path(sys.executable).parent / "ray"
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(Lab(hosts))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-"))  # pytest's paths are too long for it
        for host in range(hosts):
            where = ["--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={folder}"]
            if host:
                where = [f"--address={address_of(made)}"]
            options = [f"--num-cpus={CPUS}", f"--object-store-memory={STORE_BYTES}"]
            command = [str(ray), "start", "--block", f"--node-ip-address={made.address(host)}", *where, *options]
            output = Path(folder) / f"node{host}.txt"
            with output.open("w") as written:
                node = subprocess.Popen(
                    [*made.command(host), *command],
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    env=environment(),
                    start_new_session=True,
                )
            stack.callback(_end, node)
            until(lambda node=node, output=output: "--block" in output.read_text() or node.poll() is not None)
            assert node.poll() is None, output.read_text()
        yield made


def address_of(lab: Lab) -> str:
    """Where the cluster's head listens."""
    return f"{lab.address(0)}:{PORT}"


def environment() -> dict[str, str]:
    """Of Ray's processes, and of drivers."""
    mine = {name: text for name, text in os.environ.items() if not name.startswith("RINGTREE_")}
    return mine | SETTINGS | {"PYTHONUNBUFFERED": "1"}


def driver(lab: Lab, *words: str) -> subprocess.Popen[str]:
    """A Python program on the head's host, by its words after `python`."""
    command = [*lab.command(0), sys.executable, *words]
    return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)


def _end(node: subprocess.Popen[bytes]) -> None:
    """Ends a node: `ray stop` would end all of this machine."""
    node.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        node.wait(10)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.pid, number)
    node.wait()
