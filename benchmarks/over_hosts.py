"""Times beside Gloo, Open MPI and MPICH over hosts that are namespaces of this machine, by turns (root).

    python -m benchmarks.over_hosts --hosts 3 --ranks 2 --rate 2gbit --ops all_reduce,all_gather --sizes 4M,16M,64M
    python -m benchmarks.over_hosts --hosts 2 --ranks 1 --peers ringtree,gloo,openmpi,mpich --home ~/.cache/peers
    python -m benchmarks.over_hosts --hosts 2 --ranks 1 --peers tcp,ucx

A peer is one of ringtree's wires (`ringtree` is the default wire), or a virtual environment in --home: gloo (torch),
openmpi and mpich (mpi4py with that MPI). Shown is the median over --rounds of the time of a call, of the slowest rank,
calls back to back; every result is checked. With --rate the lower bound of the network's narrowest cut is beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from ringtree.runtime.engines.wires import VARIABLE, WIRES
from tests.runtime.hosts.lab import Lab

ROOT = Path(__file__).parent.parent
RANK = Path(__file__).with_name("peer_rank.py")
TCP_SHARE = 1448 / 1514
"""Payload of a full frame on the wire."""


def size(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1].upper()] if text[-1].upper() in units else int(text)


def cut_seconds(op: str, nbytes: int, hosts: int, ranks: int, rate_Bps: float) -> float:
    """The least time that a host's link allows, each way; `nbytes` of the whole vector (of all_gather and all_to_all:
    of the output of a rank)."""
    share = {
        "all_reduce": 2 * (hosts - 1) / hosts,
        "all_gather": (hosts - 1) / hosts,
        "reduce_scatter": (hosts - 1) / hosts,
        "broadcast": 1.0,
        "all_to_all": ranks * (hosts - 1) / hosts,
    }[op]
    return share * nbytes / (rate_Bps * TCP_SHARE)


def agent_for(lab: Lab, folder: Path) -> Path:
    """A program in ssh's place, which a launcher calls with options, a host and a command."""
    agent = folder / "agent"
    lines = ["#!/bin/bash", "while [[ ${1:-} == -* ]]; do shift; done", "host=$1; shift", 'case "$host" in']
    for host in range(lab.hosts):
        enter = " ".join(lab.command(host))
        lines.append(f'{lab.name(host)}|{lab.address(host)}) exec {enter} bash -c "$*";;')
    agent.write_text("\n".join([*lines, "esac"]))
    agent.chmod(agent.stat().st_mode | stat.S_IXUSR)
    return agent


def commands(peer: str, lab: Lab, hosts: int, ranks: int, home: Path, what: list[str], folder: Path) -> list[list[str]]:
    """What starts the ranks of one run, one command for each host or for all."""
    if peer in ("ringtree", "gloo", *WIRES):
        python = str(home / "gloo/bin/python") if peer == "gloo" else sys.executable
        made = []
        for rank in range(hosts * ranks):
            own = [
                f"RINGTREE_RANK={rank}",
                f"RINGTREE_WORLD_SIZE={hosts * ranks}",
                f"RINGTREE_ADDRESS={lab.address(0)}:29111",
            ]
            if peer == "gloo":
                own = [
                    f"RANK={rank}",
                    f"WORLD_SIZE={hosts * ranks}",
                    f"MASTER_ADDR={lab.address(0)}",
                    "MASTER_PORT=29112",
                ]
                own += ["GLOO_SOCKET_IFNAME=eth0"]
            if peer in WIRES:
                own += [f"{VARIABLE}={peer}", "UCX_NET_DEVICES=eth0"]
            program = "ringtree" if peer in WIRES else peer
            made.append([*lab.command(rank // ranks), "env", *own, python, str(RANK), program, *what])
        return made
    agent = agent_for(lab, folder)
    python = str(home / peer / "bin/python")
    if peer == "openmpi":
        place = ",".join(f"{lab.address(h)}:{ranks}" for h in range(hosts))
        run = [str(home / "openmpi/bin/mpirun"), "--allow-run-as-root", "--oversubscribe", "--prtemca", "plm_ssh_agent"]
        run += [
            str(agent),
            "--mca",
            "btl_tcp_if_include",
            "eth0",
            "--mca",
            "oob_tcp_if_include",
            "eth0",
            "--bind-to",
            "none",
        ]
        run += ["-n", str(hosts * ranks), "--host", place]
    else:
        place = ",".join(f"{lab.address(h)}:{ranks}" for h in range(hosts))
        run = [str(home / "mpich/bin/mpiexec"), "-launcher", "ssh", "-launcher-exec", str(agent), "-iface", "eth0"]
        run += ["-n", str(hosts * ranks), "-hosts", place]
    return [
        [*lab.command(0), "env", "UCX_NET_DEVICES=eth0", "UCX_TLS=tcp,self,sm", *run, python, str(RANK), peer, *what]
    ]


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The output of a launcher that is asked to end, so that its ranks do, too."""
    process.terminate()
    try:
        return process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def run(started: list[list[str]], limit_s: float) -> dict[str, float]:
    """Seconds by "op nbytes", as rank 0 prints them; empty where the run failed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | {"PYTHONDONTWRITEBYTECODE": "1"}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for command in started
    ]
    found: dict[str, float] = {}
    for process in running:
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            out, err = ended(process)
            err += f"\nno end within {limit_s:g} s"
        lines = [line.removeprefix("[0] ") for line in out.splitlines()]  # as `ringtree run` prints rank 0's
        found |= {key: value for line in lines if line.startswith("{") for key, value in json.loads(line).items()}
        if process.returncode:
            print(err.strip()[-1500:], file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=1, help="of each host")
    parser.add_argument("--rate", default="", help="of each host's link, as tc writes it: 2gbit")
    parser.add_argument("--flow-rate", default="", help="of each connection")
    parser.add_argument("--peers", default="ringtree")
    parser.add_argument("--ops", default="all_reduce")
    parser.add_argument("--sizes", default="8,4K,64K,1M,16M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="of calls, for each size")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache/peers")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sizes, ops, peers = [size(s) for s in given.sizes.split(",")], given.ops.split(","), given.peers.split(",")
    times: dict[str, dict[str, list[float]]] = {peer: {} for peer in peers}
    what = [given.ops, ",".join(map(str, sizes)), str(given.seconds)]
    with Lab(given.hosts, given.rate, given.flow_rate) as lab, tempfile.TemporaryDirectory() as folder:
        for _ in range(given.rounds):
            for peer in peers:
                started = commands(peer, lab, given.hosts, given.ranks, given.home, what, Path(folder))
                for key, value in run(started, 300).items():
                    times[peer].setdefault(key, []).append(value)
    rate_Bps = float(given.rate.removesuffix("gbit")) * 1e9 / 8 if given.rate else 0.0
    rows = []
    for op in ops:
        for nbytes in sizes:
            key = f"{op} {nbytes}"
            row = {"op": op, "nbytes": nbytes}
            row |= {peer: median(times[peer][key]) * 1e6 for peer in peers if times[peer].get(key)}
            if rate_Bps:
                row["bound"] = cut_seconds(op, nbytes, given.hosts, given.ranks, rate_Bps) * 1e6
            rows.append(row)
            shown = "  ".join(f"{k} {v:.1f}" for k, v in row.items() if k not in ("op", "nbytes"))
            print(f"{op:15} {nbytes:>10}  us: {shown}", flush=True)
    if given.json:
        record = {k: str(v) if isinstance(v, Path) else v for k, v in vars(given).items() if k not in ("home", "json")}
        given.json.write_text(json.dumps({"settings": record, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
