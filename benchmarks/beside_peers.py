"""Times beside Open MPI, MPICH and Intel MPI on this machine, by turns.

    python -m benchmarks.beside_peers -n 2 --peers ringtree,openmpi,mpich,impi --home ~/.cache/peers --rounds 5
    python -m benchmarks.beside_peers -n 8 --ops all_reduce,barrier --sizes 8,4K --json FILE

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", dest="ranks", type=int, default=2)
    parser.add_argument("--peers", default="ringtree,openmpi,mpich,impi")
    parser.add_argument("--ops", default=OPS)
    parser.add_argument("--sizes", default="8,256,4K,64K,1M,16M,64M")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of calls, for each size")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache/peers")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sizes, peers = [size(s) for s in given.sizes.split(",")], given.peers.split(",")
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(given.rounds):
        for op in given.ops.split(","):
            for peer in peers:
                what = [op, ",".join(map(str, sizes if op != "barrier" else sizes[:1])), str(given.seconds)]
                for key, value in run([command(peer, given.ranks, given.home, what)], 600).items():
                    times.setdefault((peer, key), []).append(value)
    rows, ratios = [], []
    for op in given.ops.split(","):
        for nbytes in sizes if op != "barrier" else sizes[:1]:
            of = {peer: found for peer in peers if (found := times.get((peer, f"{op} {nbytes}")))}
            row: dict[str, Any] = {"op": op, "nbytes": nbytes}
            row |= {peer: median(found) * 1e6 for peer, found in of.items()}
            words = "  ".join(f"{peer} {row[peer]:.2f}" for peer in of)
            if interval := ratio(of):
                row["ratio"] = interval
                ratios.append(interval[1])
                words += "  over the best {1:.2f} ({0:.2f} to {2:.2f})".format(*interval)
            rows.append(row)
            print(f"{op:15} {nbytes:>10}  us: {words}", flush=True)
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.2f} of {len(ratios)} points; above 1: {sum(r > 1 for r in ratios)}")
    if given.json:
        settings = {k: v for k, v in vars(given).items() if k not in ("home", "json")}
        given.json.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
