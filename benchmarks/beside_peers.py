"""Times beside Open MPI, MPICH and Intel MPI on this machine, by turns.

    python -m benchmarks.beside_peers -n 2 --peers ringtree,openmpi,mpich,impi --home ~/.cache/peers --rounds 5
    python -m benchmarks.beside_peers -n 8 --ops all_reduce,barrier --sizes 8,4K --json FILE
    python -m benchmarks.beside_peers -n 2,4,8,16,32,64 --ops all_reduce --sizes 8,4M --limit 60

A peer is a virtual environment in --home with that MPI and mpi4py. Shown is the median over --rounds of the time of a
call, of the slowest rank, calls back to back; every result is checked. Peers take turns operation by operation, because
the machine changes its pace within minutes; the quartiles of the ratio to the best peer are taken over rounds. Intel
MPI sleeps in its waits where ranks share cores, and Open MPI yields: as they are quickest there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.over_hosts import RANK, run, size

OPS = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,gather,scatter,all_to_all,barrier"


def command(peer: str, ranks: int, home: Path, what: list[str]) -> list[str]:
    """What starts the ranks of one run."""
    shared = ranks > (os.cpu_count() or 1)
    program = [str(home / peer / "bin/python") if peer != "ringtree" else sys.executable, str(RANK), peer, *what]
    if peer == "ringtree":
        return [sys.executable, "-m", "ringtree.cli", "run", "-n", str(ranks), str(RANK), peer, *what]
    if peer == "openmpi":
        yields = ["--mca", "mpi_yield_when_idle", "1"] if shared else []
        words = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *yields]
    else:
        words = ["-genv", "I_MPI_WAIT_MODE", "1"] if shared and peer == "impi" else []
    return [str(home / peer / "bin/mpiexec"), *words, "-n", str(ranks), *program]


def ratio(times: dict[str, list[float]]) -> list[float]:
    """Quartiles over rounds of ringtree's time over that of the peer with the least median; empty without a peer."""
    others = [found for peer, found in times.items() if peer != "ringtree"]
    if not others or "ringtree" not in times:
        return []
    best = min(others, key=median)
    each = sorted(ours / theirs for ours, theirs in zip(times["ringtree"], best, strict=False))
    return [round(each[len(each) * part // 4], 4) for part in (1, 2, 3)]


Times = dict[str, dict[str, list[float]]]
"""Seconds of each round, by "op nbytes" and peer."""


def raced(given: argparse.Namespace, ranks: int, sizes: list[int]) -> Times:
    """The times of all rounds. A peer that fails, or takes longer than the limit, has no further turn."""
    times: Times = {}
    out: set[str] = set()
    for _ in range(given.rounds):
        for op in given.ops.split(","):
            for peer in given.peers.split(","):
                what = [op, ",".join(map(str, sizes if op != "barrier" else sizes[:1])), str(given.seconds)]
                what += ["written"] * given.written
                found = {} if peer in out else run([command(peer, ranks, given.home, what)], given.limit)
                if not found:
                    out.add(peer)
                for key, value in found.items():
                    times.setdefault(key, {}).setdefault(peer, []).append(value)
    return times


def rows(times: Times, ranks: int) -> Iterator[dict[str, Any]]:
    """A row for each operation and size: medians in microseconds, and the ratio's quartiles."""
    for key, of in times.items():
        op, nbytes = key.split()
        row: dict[str, Any] = {"ranks": ranks, "op": op, "nbytes": int(nbytes)}
        row |= {peer: median(found) * 1e6 for peer, found in of.items()}
        if interval := ratio(of):
            row["ratio"] = interval
        yield row


def show(row: dict[str, Any], peers: list[str]) -> None:
    words = "  ".join(f"{peer} {row[peer]:.2f}" for peer in peers if peer in row)
    if "ratio" in row:
        words += "  over the best {1:.2f} ({0:.2f} to {2:.2f})".format(*row["ratio"])
    print(f"{row['ranks']:3} ranks  {row['op']:15} {row['nbytes']:>10}  us: {words}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", dest="ranks", default="2", help="one number, or several with commas")
    parser.add_argument("--peers", default="ringtree,openmpi,mpich,impi")
    parser.add_argument("--ops", default=OPS)
    parser.add_argument("--sizes", default="8,256,4K,64K,1M,16M,64M")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of calls, for each size")
    parser.add_argument("--written", action="store_true", help="what is sent is written before each call, untimed")
    parser.add_argument("--limit", type=float, default=600, help="seconds of a run, after which a peer is left out")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache/peers")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sizes, found = [size(s) for s in given.sizes.split(",")], []
    for ranks in map(int, given.ranks.split(",")):
        for row in rows(raced(given, ranks, sizes), ranks):
            show(row, given.peers.split(","))
            found.append(row)
    if ratios := [row["ratio"][1] for row in found if "ratio" in row]:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.2f} of {len(ratios)} points; above 1: {sum(r > 1 for r in ratios)}")
    if given.json:
        settings = {k: v for k, v in vars(given).items() if k not in ("home", "json")}
        given.json.write_text(json.dumps({"settings": settings, "rows": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
