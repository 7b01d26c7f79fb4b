"""Times beside Open MPI, MPICH and Intel MPI on this machine, by turns.

    python -m benchmarks.beside_peers -n 2 --peers ringtree,openmpi,mpich,impi --home ~/.cache/peers --rounds 5
    python -m benchmarks.beside_peers -n 8 --ops all_reduce,barrier --sizes 8,4K --json FILE

A peer is a virtual environment in --home with that MPI and mpi4py. Shown is the median over --rounds of the time of a
call, of the slowest rank, calls back to back; every result is checked. Intel MPI sleeps in its waits where ranks share
cores, and Open MPI yields: as they are quickest there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from math import exp, log
from pathlib import Path
from statistics import median

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
        for peer in peers:
            what = [given.ops, ",".join(map(str, sizes)), str(given.seconds)]
            for key, value in run([command(peer, given.ranks, given.home, what)], 600).items():
                times.setdefault((peer, key), []).append(value)
    rows, ratios = [], []
    for op in given.ops.split(","):
        for nbytes in sizes if op != "barrier" else sizes[:1]:
            row: dict[str, object] = {"op": op, "nbytes": nbytes}
            found = {peer: median(of) * 1e6 for peer in peers if (of := times.get((peer, f"{op} {nbytes}")))}
            rows.append(row | found)
            words = "  ".join(f"{peer} {us:.2f}" for peer, us in found.items())
            others = [us for peer, us in found.items() if peer != "ringtree"]
            if others and "ringtree" in found:
                ratios.append(found["ringtree"] / min(others))
                words += f"  over the best {ratios[-1]:.2f}"
            print(f"{op:15} {nbytes:>10}  us: {words}", flush=True)
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.2f} of {len(ratios)} points; above 1: {sum(r > 1 for r in ratios)}")
    if given.json:
        settings = {k: v for k, v in vars(given).items() if k not in ("home", "json")}
        given.json.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
