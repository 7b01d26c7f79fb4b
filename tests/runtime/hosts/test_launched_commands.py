"""Commands that a launcher starts as ranks on several hosts: one table, which rank 0 prints."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtree.price import Hosts
from tests.runtime.bootstrap.test_environment import launcher
from tests.runtime.hosts.lab import Lab

BENCH = ("bench", "all_reduce", "-b", "8", "-e", "64K", "-f", "64", "--iters", "3", "-w", "1")
SIZES = [8, 512, 32768]


def as_started(name: str, rank: int) -> dict[str, str]:
    """The environment of one of two ranks on two hosts, as that launcher sets it."""
    return {
        "Open MPI": {
            "OMPI_COMM_WORLD_RANK": f"{rank}",
            "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
            "PMIX_NAMESPACE": "prterun-lab-1@1",
        },
        "MPICH": {"PMI_RANK": f"{rank}", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1"},
        "torchrun": {"RANK": f"{rank}", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "lab"},
        "srun": {
            "SLURM_PROCID": f"{rank}",
            "SLURM_STEP_ID": "0",
            "SLURM_JOB_ID": "7",
            "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_STEP_NUM_NODES": "2",
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
        },
    }[name]


def finished(commands: list[list[str]], environments: list[dict[str, str]]) -> list[str]:
    """What each process prints; all must end well."""
    running = [
        subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | e)
        for c, e in zip(commands, environments, strict=True)
    ]
    try:
        shown = [process.communicate(timeout=60)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * len(running), shown
    return shown


def check_table(text: str, ranks: int) -> None:
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert [int(row[0]) for row in rows] == SIZES
    assert all(row[8] == row[12] == "0" for row in rows)  # no wrong element on either side
    assert f"all_reduce, {ranks} processes on 2 hosts, algorithm auto" in text
    assert text.count("# Out of bounds values : 0 OK") == 1


@pytest.mark.parametrize("name", ["Open MPI", "MPICH", "torchrun", "srun"])
def test_rank_0_alone_prints_the_table_of_a_bench(lab: Lab, ports: Iterator[int], name: str, tmp_path: Path) -> None:
    record = tmp_path / "rows.json"
    words = [sys.executable, "-m", "ringtree.cli", *BENCH, "--json", str(record)]
    address = {"RINGTREE_ADDRESS": f"{lab.address(0)}:{next(ports)}", "RINGTREE_TIMEOUT": "30"}
    variables = [as_started(name, rank) | address for rank in range(2)]
    first, second = finished([[*lab.command(rank), *words] for rank in range(2)], variables)
    check_table(first, 2)
    assert second == ""
    rows = json.loads(record.read_text())["rows"]
    assert [row["nbytes"] for row in rows] == SIZES
    assert all(row["predicted_us"] > 10 for row in rows)  # more than the least latency of any network


@pytest.mark.parametrize(
    ("peer", "program", "words"),
    [
        (
            "openmpi",
            "mpirun",
            "--allow-run-as-root --oversubscribe --prtemca plm_ssh_agent AGENT --mca oob_tcp_if_include eth0 "
            "--mca btl_tcp_if_include eth0 --bind-to none -n 4 --host HOSTS",
        ),
        ("mpich", "mpiexec", "-launcher ssh -launcher-exec AGENT -iface eth0 -n 4 -hosts HOSTS"),
    ],
)
def test_a_launchers_ranks_print_one_table(
    lab: Lab, ports: Iterator[int], peer: str, program: str, words: str, tmp_path: Path
) -> None:
    started = launcher(peer, program)
    agent = tmp_path / "agent"  # in place of ssh
    cases = [f'{lab.name(h)}|{lab.address(h)}) exec {" ".join(lab.command(h))} bash -c "$*";;' for h in range(2)]
    head = ["#!/bin/bash", "while [[ ${1:-} == -* ]]; do shift; done", "host=$1; shift", 'case "$host" in']
    agent.write_text("\n".join([*head, *cases, "esac"]))
    agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
    hosts = ",".join(f"{lab.address(h)}:2" for h in range(2))
    options = words.replace("AGENT", str(agent)).replace("HOSTS", hosts).split()
    command = [*lab.command(0), started, *options, sys.executable, "-m", "ringtree.cli", *BENCH]
    address = {"RINGTREE_ADDRESS": f"{lab.address(0)}:{next(ports)}", "RINGTREE_TIMEOUT": "30"}
    (shown,) = finished([command], [address | {"PATH": f"{Path(started).parent}:{os.environ['PATH']}"}])
    check_table(shown, 4)


def test_the_number_of_ranks_is_the_launchers(lab: Lab) -> None:
    command = [sys.executable, "-m", "ringtree.cli", *BENCH, "-n", "2"]
    variables = as_started("torchrun", 0) | {"RINGTREE_ADDRESS": f"{lab.address(0)}:1"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    assert done.returncode and "-n/--ranks in a rank of the 2 that torchrun started; leave it out" in done.stderr


def test_the_place_of_a_group_is_its_memory_or_its_hosts() -> None:
    import ringtree
    from ringtree.price import SharedMemory

    with ringtree.init() as comm:
        assert isinstance(comm.where, SharedMemory) and not isinstance(comm.where, Hosts)
