"""What trials of two ways are worth (decision 0091): `python -m benchmarks.trials --json FILE`.

A group makes a call until its trial is over, then calls back to back by staging and by single copies in turn. Shown are
the times of both, of the slowest rank, and by how much the way that the trial chose takes longer than the quicker one
(its regret), beside the regret of the prediction. Medians over --groups groups, each of new processes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ringtree
from ringtree.bench.machine import describe
from ringtree.runtime.communicator.calls.trials import IN_TURN, SPREADING
from ringtree.runtime.communicator.communicator import Communicator

TURNS, MOST_CALLS, FEWEST_CALLS, WARM, MOVED_NBYTES = 3, 40, 10, 5, 200_000_000
OPS = {2: "all_gather,all_reduce,all_to_all,broadcast,gather,reduce_scatter,scatter"}
FEW = "all_to_all,gather,scatter"
"""For more ranks: bytes of the others go to several, or are summed."""


@dataclass(frozen=True)
class Found:
    """A group's times of a call, in microseconds, and the ways that its trial and the prediction chose."""

    staged_us: float
    single_us: float
    chosen: str
    predicted: str

    def regret(self, way: str) -> float:
        """The time of a way over that of the quicker one."""
        return (self.staged_us if way == "staged" else self.single_us) / min(self.staged_us, self.single_us)


def call_of(comm: Communicator, op: str, nbytes: int) -> Callable[[], Any]:
    whole, block = nbytes // 4, nbytes // 4 // comm.size
    x = np.ones(block if op in ("all_gather", "gather") else whole, np.float32)
    out = np.empty(block if op in ("scatter", "reduce_scatter") else whole, np.float32)
    if op == "broadcast":
        return lambda: comm.broadcast(x)
    if op == "all_reduce":
        x[:] = 0.0  # in place sums stay numbers
        return lambda: comm.all_reduce(x, out=x)
    if op == "gather":
        return lambda: comm.gather(x, out=None if comm.rank else out)
    if op == "scatter":
        return lambda: comm.scatter(None if comm.rank else x, out=out)
    return lambda: getattr(comm, op)(x, out=out)


def measured(comm: Communicator, op: str, nbytes: int) -> Found:
    call = call_of(comm, op, nbytes)
    for _ in range(len(IN_TURN) + SPREADING + 1):
        call()
    (trial,) = comm._calls.selection.trials._trials.values()
    assert trial._settled is not None
    chosen = trial._settled.steps.single_copy
    times_us: dict[bool, list[float]] = {False: [], True: []}
    calls = max(min(MOVED_NBYTES // nbytes, MOST_CALLS), FEWEST_CALLS)
    for turn in range(2 * TURNS):
        way = trial._ways[turn % 2]
        trial.settle(way)
        comm._calls.plans.forget_all()
        for _ in range(WARM):
            call()
        comm.barrier()
        began_s = time.perf_counter()
        for _ in range(calls):
            call()
        took_us = (time.perf_counter() - began_s) / calls * 1e6
        times_us[way.steps.single_copy].append(float(comm.all_reduce(np.array([took_us]), "max")[0]))
    names = {False: "staged", True: "single copies"}
    predicted = trial._ways[0].steps.single_copy
    return Found(median(times_us[False]), median(times_us[True]), names[chosen], names[predicted])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", default="2,4,8", help="numbers of ranks")
    parser.add_argument("--ops", help="some of the collectives")
    parser.add_argument("--mib", default="1,4,16,64", help="sizes of the whole vector")
    parser.add_argument("--groups", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for ranks in map(int, given.n.split(",")):
        for op in (given.ops or OPS.get(ranks, FEW)).split(","):
            for mib in map(int, given.mib.split(",")):
                groups = [ringtree.spawn(measured, ranks, op, mib << 20)[0] for _ in range(given.groups)]
                regrets = [[g.regret(g.chosen) for g in groups], [g.regret(g.predicted) for g in groups]]
                rows.append({"ranks": ranks, "op": op, "nbytes": mib << 20, "groups": [asdict(g) for g in groups]})
                print(
                    f"{ranks} ranks  {op:11} {mib:3} MiB  us: staged {median(g.staged_us for g in groups):7.0f}"
                    f"  single copies {median(g.single_us for g in groups):7.0f}"
                    f"  single chosen {sum(g.chosen != 'staged' for g in groups)} of {len(groups)}"
                    f"  regret {median(regrets[0]):.2f} (most {max(regrets[0]):.2f})"
                    f"  of the prediction {median(regrets[1]):.2f} ({max(regrets[1]):.2f})",
                    flush=True,
                )
    if given.json:
        given.json.write_text(json.dumps({"machine": describe(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
