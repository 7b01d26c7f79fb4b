"""Jobs of `ringtree run --hosts`, and all their processes."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.runtime.hosts import stand_in_for_ssh
from tests.runtime.hosts.lab import Lab
from tests.runtime.hosts.stand_in_for_ssh import MARK
from tests.waiting import interruptible, until

HEAD = "import os, signal, subprocess, sys, time\nrank = int(os.environ['RINGTREE_RANK'])\n"
RUN = """
import sys
from ringtree.runtime.launch import job
job.GRACE_S, job.STOP_S = float(sys.argv[1]), 0.5
from ringtree.cli import main
sys.exit(main(["run", *sys.argv[2:]]))
"""


def ssh(lab: Lab | None = None) -> str:
    """The command in place of ssh."""
    hosts = [f"{lab.name(host)}={lab._hosts[host]}" for host in range(lab.hosts)] if lab else []
    return shlex.join([sys.executable, stand_in_for_ssh.__file__, *hosts])


def program(folder: Path, text: str) -> str:
    """A program whose ranks know their number."""
    file = folder / "program.py"
    file.write_text(HEAD + text)
    return str(file)


def processes(mark: str) -> dict[int, str]:
    """The processes of a job: their command lines and environments."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            env = (folder / "environ").read_bytes().decode(errors="replace")
            if f"{MARK}={mark}\0" in env:
                found[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace") + "\0" + env
    return found


class Launched:
    """A process of `ringtree run --hosts`, and those that it has started anywhere."""

    def __init__(self, hosts: str, *words: str, lab: Lab | None = None, grace_s: float = 20.0) -> None:
        self.mark = secrets.token_hex(8)
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(grace_s), "--ssh", ssh(lab), "--hosts", hosts, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, MARK: self.mark},
            preexec_fn=interruptible,  # noqa: PLW1509  # it takes no lock
        )

    def lines(self, count: int) -> list[str]:
        """The next lines that the ranks print, sorted."""
        assert self.process.stdout is not None
        return sorted(self.process.stdout.readline().rstrip("\n") for _ in range(count))

    def rank(self, rank: int) -> int:
        """A rank's process."""
        every = processes(self.mark).items()
        return next(pid for pid, text in every if f"\0RINGTREE_RANK={rank}\0" in text and "program.py" in text)

    def agent_of(self, rank: int) -> int:
        """The agent that has started a rank."""
        return parent(self.rank(rank))

    def end(self) -> tuple[int, str, list[str]]:
        """The exit code, the rest of the output, and the launcher's lines; when no process of the job is left."""
        out, err = self.process.communicate()
        until(lambda: not processes(self.mark))
        return self.process.returncode, out, [line for line in err.splitlines() if line.startswith("ringtree run")]

    def stop(self) -> None:
        """Ends the launcher."""
        self.process.kill()
        self.process.communicate()


def parent(pid: int) -> int:
    """The parent of a process."""
    found = re.search(r"PPid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])
