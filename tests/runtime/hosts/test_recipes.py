"""The commands of docs/multi_node.md, run on two hosts of a lab where their launcher is installed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime.bootstrap.test_environment import launcher
from tests.runtime.hosts.lab import Lab
from tests.test_multi_node import ROOT, indented

PORT = 29900
HOSTS = 2


def blocks(lab: Lab, word: str) -> list[str]:
    """The page's blocks that begin with that word, for this lab."""
    found = [block for block in indented() if block.strip().startswith(word)]
    assert found
    for host in range(HOSTS):
        found = [block.replace(f"node{host}", lab.address(host)) for block in found]
    return found


def variables(lab: Lab, port: int) -> dict[str, str]:
    """The environment of a shell in which the page's `export`s were done, and nothing else of ours."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith("RINGTREE_")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    address = f"{lab.address(0)}:{port}"
    return ours | {
        "PATH": path,
        "RINGTREE_ADDRESS": address,
        "RINGTREE_SECRET": "of the tests",
        "RINGTREE_TIMEOUT": "60",
    }


def on_hosts(lab: Lab, scripts: list[str], env: dict[str, str]) -> str:
    """The output of a shell's script on each host, at the same time."""
    running = [
        subprocess.Popen(
            [*lab.command(host), "sh", "-c", script + "\nwait"],
            env=env,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for host, script in enumerate(scripts)
    ]
    return "".join(shell.communicate()[0] for shell in running)


def all_have(output: str, ranks: int) -> None:
    total = float(sum(range(ranks)))
    found = sorted(re.findall(rf"rank (\d+) of {ranks} has \[{total:g}\. {total:g}\. {total:g}\.\]", output), key=int)
    assert found == [str(rank) for rank in range(ranks)], output


def test_plain_variables(lab: Lab) -> None:
    all_have(on_hosts(lab, blocks(lab, "RINGTREE_RANK"), variables(lab, PORT)), 4)


@pytest.mark.torch
def test_torchrun(lab: Lab) -> None:
    (block,) = blocks(lab, "torchrun")
    all_have(on_hosts(lab, block.splitlines(), variables(lab, PORT + 1)), 8)


@pytest.fixture
def agent(lab: Lab, tmp_path: Path) -> str:
    """A program in place of ssh, which passes no variable on."""
    cases = "".join(f'{lab.address(h)}) set -- {shlex.join(lab.command(h))} sh -c "$*";;\n' for h in range(HOSTS))
    path = tmp_path / "agent"
    path.write_text(
        "#!/bin/sh\n"
        'while [ "${1#-}" != "$1" ]; do shift; done\n'
        "host=$1; shift\n"
        f"case $host in\n{cases}esac\n"
        'exec env -i PATH=/usr/bin:/bin HOME="$HOME" "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


LAB_WORDS: dict[str, Callable[[Path, str], list[str]]] = {
    "openmpi": lambda prefix, agent: [
        "--allow-run-as-root", "--prefix", str(prefix), "--prtemca", "plm_ssh_agent", agent, "--bind-to", "none",
    ],
    "mpich": lambda prefix, agent: ["-launcher", "ssh", "-launcher-exec", agent],
}  # fmt: skip
"""The words that a launcher needs beside the page's, because hosts are namespaces and their user is root."""


@pytest.mark.parametrize(("peer", "number"), [("openmpi", 0), ("mpich", 1)])
def test_mpirun(lab: Lab, agent: str, peer: str, number: int) -> None:
    program = Path(launcher(peer, "mpirun"))
    command = blocks(lab, "mpirun")[0].splitlines()[number].split()
    prefix = program.resolve().parent.parent if program.is_absolute() else Path("/usr")
    words = [str(program), *LAB_WORDS[peer](prefix, agent), *command[1:]]
    words[words.index("python")] = sys.executable
    env = variables(lab, PORT + 2 + number) | {"LD_LIBRARY_PATH": f"{prefix}/lib"}
    all_have(on_hosts(lab, [shlex.join(words)], env), 8)
