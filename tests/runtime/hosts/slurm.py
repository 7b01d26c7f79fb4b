"""A cluster of Slurm on the hosts of a lab: the controller on host 0, a node on each of the others."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.runtime.hosts.lab import Lab

if TYPE_CHECKING:
    from typing_extensions import Self

NEEDED = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo")
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
READY_S = 60.0
CONF = """
ClusterName=lab
SlurmctldHost=lab0({controller})
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
{nodes}
PartitionName=lab Nodes=ALL Default=YES State=UP OverSubscribe=YES
"""
NODE = "NodeName=lab{host} NodeHostname=lab{host} NodeAddr={address} CPUs=4 State=UNKNOWN"


def missing() -> str:
    """The programs that Slurm lacks here; "" where all are there."""
    lacking = [name for name in NEEDED if shutil.which(name, path=SYSTEM) is None]
    return f"no {', '.join(lacking)} here (Debian: slurmctld slurmd slurm-client munge)" if lacking else ""


class Slurm:
    """The daemons and their files in `folder`; they end with the block. RuntimeError with the daemons' last words where
    the nodes are not idle within READY_S."""

    def __init__(self, lab: Lab, folder: Path, port: int) -> None:
        self.lab, self.folder = lab, folder
        self.names = [lab.name(host) for host in range(1, lab.hosts)]
        nodes = [NODE.format(host=host, address=lab.address(host)) for host in range(1, lab.hosts)]
        conf = CONF.format(
            controller=lab.address(0), port=port, node_port=port + 1, folder=folder, nodes="\n".join(nodes)
        )
        (folder / "slurm.conf").write_text(conf)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # named, so that it looks for none
        for name in ("state", *self.names):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self.env = {"PATH": SYSTEM, "SLURM_CONF": str(folder / "slurm.conf"), "HOME": str(folder)}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed", "log-file": "log"}
            words = [f"--{option}={self.folder}/munge.{end}" for option, end in files.items()]
            self._start("munged", [], ["munged", "--foreground", "--force", *words])
            self._start("slurmctld", self.lab.command(0), ["slurmctld", "-D", "-i"])
            for host, name in enumerate(self.names, 1):
                self._start(name, self.lab.command(host), ["slurmd", "-D", "-N", name])
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, *words: str, env: dict[str, str] | None = None, timeout_s: float = 120) -> tuple[int, str]:
        """The exit code and the output of a command of Slurm's on the controller's host."""
        done = subprocess.run(
            [*self.lab.command(0), *words],
            env=self.env | (env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        return done.returncode, done.stdout

    def close(self) -> None:
        """Ends all jobs, then the daemons."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._end_jobs()
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            daemon.kill()
            daemon.wait()

    def last_words(self) -> str:
        """The last lines of each daemon's log."""
        logs = sorted(self.folder.glob("*.out"))
        return "\n".join(f"{log.stem}: {' | '.join(log.read_text().splitlines()[-6:])}" for log in logs)

    def _start(self, name: str, enter: list[str], words: list[str]) -> None:
        with (self.folder / f"{name}.out").open("wb") as log:
            self._daemons.append(
                subprocess.Popen([*enter, *words], env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            )

    def _end_jobs(self) -> None:
        """Daemons end without the steps that they have started."""
        until_s = time.monotonic() + 10
        while any(d.poll() is None for d in self._daemons[1:2]) and time.monotonic() < until_s:
            code, jobs = self.run("squeue", "--noheader", "--format=%i", timeout_s=10)
            if code or not jobs.split():
                return
            self.run("scancel", "--full", "--signal=KILL", *jobs.split(), timeout_s=10)
            time.sleep(0.2)

    def _wait(self) -> None:
        until_s = time.monotonic() + READY_S
        shown = ""
        while time.monotonic() < until_s:
            if any(daemon.poll() is not None for daemon in self._daemons):
                break
            code, shown = self.run("sinfo", "-h", "-N", "-o", "%N %T")
            if code == 0 and sorted(shown.split("\n")[:-1]) == [f"{name} idle" for name in self.names]:
                return
            time.sleep(0.2)
        raise RuntimeError(f"Slurm is not ready: {shown.strip()}\n{self.last_words()}")


def python_path() -> str:
    """PATH with the tests' interpreter first."""
    return f"{os.path.dirname(os.sys.executable)}:{SYSTEM}"
