"""The time from a kill to the first call in the survivors' group: on this machine, or over namespaces of it (root).

    python -m benchmarks.after_a_death --ranks 4 --kills 24
    python -m benchmarks.after_a_death --hosts 2,2 --kills 24
    python -m benchmarks.after_a_death --ranks 4 --kills 24 --joins

Each time all ranks are made anew and call all_reduce; then one of them, another each time, kills itself. Counted is
what the slowest survivor saw: when an error named the culprit, when shrink() returned, and when the first all_reduce in
the new group was done. With --joins a process joins what is left, and the time of grow() is counted, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from statistics import median
from typing import Any

import numpy as np

import ringtree
from ringtree.bench.machine import describe
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.launch.spawn_processes import Processes
from tests.runtime.chaos.board import Board
from tests.runtime.hosts.conftest import PORT, parameters_on
from tests.runtime.hosts.lab import Lab
from tests.runtime.outlived import CONTEXT

TIMEOUT_S = 20.0
COUNT = 1000
COLUMNS = ("named", "shrunk", "all_reduce", "grown")


def survive(comm: Communicator, victim: int, board: Board, at: str | None) -> tuple[float, ...]:
    """The times of day at which this survivor was so far."""
    x = np.ones(COUNT)
    for _ in range(20):
        comm.all_reduce(x)
    comm.barrier()
    if comm.rank == victim:
        board.fault()
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            comm.all_reduce(x)
    except (ringtree.PeerDied, ringtree.Poisoned) as error:
        named = time.time() if f"rank {victim}" in str(error) else float("nan")
    size, comm = comm.size, comm.shrink()
    shrunk = time.time()
    assert comm.all_reduce(x)[0] == comm.size == size - 1
    again = time.time()
    if at is None:
        return named, shrunk, again
    comm = comm.grow(1, at=at)
    assert comm.all_reduce(x)[0] == size
    comm.barrier()
    return named, shrunk, again, time.time()


def join(at: str) -> None:
    comm = ringtree.join(at, timeout_s=TIMEOUT_S)
    comm.all_reduce(np.ones(COUNT))
    comm.barrier()


def kill(number: int, ranks: int, lab: Lab | None, layout: tuple[int, ...], joins: bool) -> list[float]:
    """Seconds from one kill to each of the COLUMNS, of the slowest survivor."""
    board = Board(ranks)
    at = f"after a death {os.getpid()} {number}" if joins else None
    if lab is not None:
        parameters = parameters_on(lab, layout, PORT + number, TIMEOUT_S)
    else:
        names = tuple(map(str, range(ranks)))
        key = f"after a death {os.getpid()} {number}"
        parameters = [GroupParameters(key, rank, names, TIMEOUT_S) for rank in range(ranks)]
    newcomer = CONTEXT.Process(target=join, args=(at,)) if at else None
    if newcomer:
        newcomer.start()
    crew = Processes("shm", parameters, (survive, (number % ranks, board, at)), False)
    try:
        outcomes = crew.finish(2 * TIMEOUT_S)
    finally:
        crew.stop()
        if newcomer:
            newcomer.join()
    failed = [outcome.story for rank, outcome in outcomes if outcome.failed and rank != number % ranks]
    assert not failed, failed[0]
    times = [outcome.result for _, outcome in outcomes if not outcome.failed]
    assert len(times) == ranks - 1
    return [max(column) - board.happened_s for column in zip(*times, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--hosts", help="ranks of each host, as 2,2")
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--joins", action="store_true", help="a process joins afterwards (on this machine)")
    parser.add_argument("--json", help="keep a record")
    options = parser.parse_args()
    layout = tuple(map(int, options.hosts.split(","))) if options.hosts else ()
    lab = Lab(len(layout)) if layout else None
    ranks = sum(layout) or options.ranks
    try:
        rows = []
        for number in range(options.kills):
            rows.append(kill(number, ranks, lab, layout, options.joins))
            print(f"kill {number}:", *(f"{1e3 * seconds:.1f}" for seconds in rows[-1]), "ms", flush=True)
    finally:
        if lab is not None:
            lab.close()
    record: dict[str, Any] = {"machine": describe(), "ranks": ranks, "hosts": layout, "kills": options.kills}
    for name, column in zip(COLUMNS, zip(*rows, strict=False), strict=False):
        record[name] = {"median_s": round(median(column), 4), "worst_s": round(max(column), 4)}
        print(f"{name:12} median {1e3 * median(column):8.1f} ms   worst {1e3 * max(column):8.1f} ms")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
