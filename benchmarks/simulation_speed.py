"""How long simulations take: wall seconds over ranks, with all events.

    python benchmarks/simulation_speed.py                    2 to 1,000 ranks, as a table in Markdown
    python benchmarks/simulation_speed.py -n 8,1000 --json speed.json

From the schedule to the trace, lowering included, on a switch that ranks share: the messages of trees meet there, and
go through the event player. Schedules of more than MOST_MESSAGES are left out.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

from ringtree.algorithms import build
from ringtree.bench.machine import describe
from ringtree.ir.schedule import Schedule
from ringtree.simulate import play
from ringtree.topology.shapes import switch
from ringtree.transform import pipeline

NBYTES = 1 << 20
MOST_MESSAGES = 5_000_000
PIECES = 64
"""Of the trees that are pipelined."""
CASES = {
    "ring all_reduce": lambda n: build("ring", "all_reduce", n),
    "halving_doubling all_reduce": lambda n: build("halving_doubling", "all_reduce", n),
    "double_tree all_reduce": lambda n: build("double_tree", "all_reduce", n),
    f"double_tree all_reduce, {PIECES} pieces": lambda n: pipeline(build("double_tree", "all_reduce", n), PIECES),
    "binomial broadcast": lambda n: build("binomial", "broadcast", n),
    f"chain broadcast, {PIECES} pieces": lambda n: pipeline(build("chain", "broadcast", n), PIECES),
    "torus all_reduce": lambda n: build("torus", "all_reduce", n),
    "bruck all_gather": lambda n: build("bruck", "all_gather", n),
    "pairwise all_to_all": lambda n: build("pairwise", "all_to_all", n),
}


def timed(schedule: Schedule) -> dict[str, float | int]:
    """Wall seconds of one simulation, its events, and the time that it predicts."""
    topology = switch(schedule.ranks, latency_s=2e-6, bandwidth_Bps=25e9)
    begin_s = time.perf_counter()
    found = play(schedule, topology, NBYTES)
    wall_s = time.perf_counter() - begin_s
    return {"wall_s": wall_s, "events": len(found.trace), "time_s": found.time_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", default="2,8,64,256,1000", help="(default 2,8,64,256,1000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, and the machine's")
    args = parser.parse_args()
    ranks = [int(n) for n in args.ranks.split(",")]
    timed(build("ring", "all_reduce", 8))  # what is imported and compiled once is no simulation's
    print(f"| wall seconds (events) | {' | '.join(f'{n:,} ranks' for n in ranks)} |")
    print(f"| --- {'| ---: ' * len(ranks)}|")
    rows = []
    for name, built in CASES.items():
        words = [name]
        for n in ranks:
            schedule = built(n)
            if schedule.transfers > MOST_MESSAGES:
                words.append("")
                continue
            row = timed(schedule)
            rows.append({"schedule": name, "ranks": n, **row})
            words.append(f"{row['wall_s']:.3g} ({row['events']:,})")
        print(f"| {' | '.join(words)} |", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\non {describe()['cpu']}, numpy on one core; at most {peak:.1f} GB of memory")
    if args.json:
        args.json.write_text(json.dumps({"machine": describe(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
