"""How near predictions come to calls that were measured in the same minutes, and how good the choices by them are.

    python benchmarks/tuned_beside_measured.py                     about 150 s; best on a quiet machine
    python benchmarks/tuned_beside_measured.py --json tuned.json

What `ringtree tune` measures and all that is compared are measured in turns, sizes that had least time first, and each
counts by its median over turns. Cost parameters are fitted to the one, and predict the other: other sizes, other
algorithms and collectives. A choice is judged by what was measured: its time over the fastest's. Programs that are
equal count as one. The fastest of many is also the luckiest, so where it took less time than the choice, the two are
measured again, in turns of their own, and that is the figure.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ringtree.algorithms import build, serving
from ringtree.bench import contenders
from ringtree.bench.machine import describe, usable_cores
from ringtree.bench.predicted import shared_memory
from ringtree.bench.sweep import SweepCase, cases
from ringtree.bench.tuning import as_measured, in_turns, rows
from ringtree.cli.terminal import progress
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.plan import choose, shortlist
from ringtree.price import BUILT_IN, CostParameters
from ringtree.price.memory.fitting import fit
from ringtree.runtime.tuned import as_json

TUNED_RANKS = (1, 2, 4, 8)
RANKS = (1, 2, 3, 4, 8)
SIZES = [16, 64, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20, 64 << 20]
"""Between those that parameters are fitted to, and beyond."""
OVERSUBSCRIBED_NBYTES = 32 << 20
"""The most where ranks share cores: what is longer takes all the time there is."""
OTHERS = ("broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter", "scan")
OTHERS_RANKS = (2, 4, 8)
OTHERS_SIZES = [16, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20]
ERROR, LOSS = 0.25, 0.15
"""The goals: a prediction's median error, and by how much a choice may be slower than the best."""


def compared() -> list[list[SweepCase]]:
    """All algorithms of all_reduce, of which one rank alone has one; of the others those that come into question."""
    table = []
    for n in RANKS:
        names = serving("all_reduce") if n > 1 else shortlist("all_reduce", n)[:1]
        for nbytes in SIZES if n <= usable_cores() else [s for s in SIZES if s <= OVERSUBSCRIBED_NBYTES]:
            table.append([c for a in names for c in cases("all_reduce", n, [nbytes], "float32", "sum", 0, a)])
    for n in OTHERS_RANKS:
        for nbytes in OTHERS_SIZES:
            table.append(
                [c for k in OTHERS for a in shortlist(k, n) for c in cases(k, n, [nbytes], "float32", "sum", 0, a)]
            )
    return table


Call = tuple[SweepCase, float]
"""A call and the seconds that it took."""


def predicted_s(case: SweepCase, parameters: CostParameters) -> float:
    return contenders.predicted_s(case, replace(shared_memory(case.ranks), parameters=parameters))


@cache
def program(collective: str, algorithm: str, ranks: int) -> tuple[str, ...]:
    """What tells an algorithm's programs from others', over so many ranks."""
    root = 0 if COLLECTIVES[collective].rooted else None
    return tuple(p.digest() for p in lower(build(algorithm, collective, ranks, root)))


def pick(case: SweepCase, parameters: CostParameters) -> str:
    """The algorithm that is chosen for such a call."""
    memory = replace(shared_memory(case.ranks), parameters=parameters)
    return choose(case.collective, case.ranks, case.nbytes, memory=memory).algorithm


def disputes(calls: list[Call], parameters: CostParameters) -> list[list[SweepCase]]:
    """The choice and the fastest of each point where they differ."""
    found = []
    for case in dict.fromkeys(replace(case, algorithm=None) for case, _ in calls):
        mine = {c.algorithm: (c, took_s) for c, took_s in calls if replace(c, algorithm=None) == case}
        chosen, fastest = pick(case, parameters), min(mine, key=lambda name: mine[name][1])
        if program(case.collective, chosen, case.ranks) != program(case.collective, fastest, case.ranks):
            found.append([mine[chosen][0], mine[fastest][0]])
    return found


def loss(case: SweepCase, parameters: CostParameters, again_s: dict[SweepCase, float]) -> float:
    """By how much the choice is slower than the fastest: not at all where the two are not in dispute, or it is not
    when they are measured again."""
    chosen = pick(case, parameters)
    of = {c.algorithm: s for c, s in again_s.items() if replace(c, algorithm=None) == replace(case, algorithm=None)}
    return max(of[chosen] / min(of.values()) - 1, 0.0) if chosen in of else 0.0


def judged(calls: list[Call], parameters: CostParameters, again_s: dict[SweepCase, float]) -> list[dict[str, Any]]:
    """Of each collective over each number of ranks: errors over sizes and algorithms, losses over sizes."""
    found = []
    for collective, n in dict.fromkeys((case.collective, case.ranks) for case, _ in calls):
        mine = [(case, s) for case, s in calls if (case.collective, case.ranks) == (collective, n)]
        off = [predicted_s(case, parameters) / s - 1 for case, s in mine]
        losses = {name: [] for name in ("tuned", "built_in")}
        for case in dict.fromkeys(replace(case, algorithm=None) for case, _ in mine):
            for name, by in (("tuned", parameters), ("built_in", BUILT_IN)):
                losses[name].append(loss(case, by, again_s))
        found.append(
            {
                "collective": collective,
                "ranks": n,
                "calls": len(mine),
                "error_median": float(np.median(np.abs(off))),
                "error_p90": float(np.quantile(np.abs(off), 0.9)),
                "bias_median": float(np.median(off)),
                "loss_median": median(losses["tuned"]),
                "loss_worst": max(losses["tuned"]),
                "built_in_loss_median": median(losses["built_in"]),
                "built_in_loss_worst": max(losses["built_in"]),
            }
        )
    return found


def show(found: list[dict[str, Any]]) -> bool:
    """Prints the table; whether the goals are met."""
    print("| collective | ranks | calls | error: median | 90 % below | choice over best: median | worst | built in |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    met = True
    for row in found:
        good = row["error_median"] <= ERROR and row["loss_worst"] <= LOSS
        met &= good
        ratios = ("error_median", "error_p90", "loss_median", "loss_worst", "built_in_loss_worst")
        words = [row["collective"], str(row["ranks"]), str(row["calls"]), *(f"{row[name]:.0%}" for name in ratios)]
        print(f"| {' | '.join(words)} |{'' if good else ' *'}")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150.0, help="how long to measure (default 150)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, and the machine's")
    args = parser.parse_args()
    cores, began_s = usable_cores(), time.monotonic()
    fitted = [row for n in TUNED_RANKS for row in rows(n, cores)]
    with progress("measuring", total=round(args.seconds)) as bar:

        def step(text: str) -> None:
            bar.reach(min(time.monotonic() - began_s, args.seconds))
            bar.note(text)

        against, table = [row for n in TUNED_RANKS for row in contenders.rows(n)], compared()
        times, turns = in_turns([*fitted, *against, *table], args.seconds, step)
    known = {case for row in fitted for case in row}
    parameters = fit([as_measured(case, median(times[case]), cores) for case in known], "this run")
    parameters = contenders.corrected(parameters, {case: median(times[case]) for row in against for case in row})
    calls = [(case, median(times[case])) for row in table for case in row]
    disputed = [pair for by in (parameters, BUILT_IN) for pair in disputes(calls, by)]
    with progress("measuring choices and the fastest again", total=round(args.seconds / 2)):
        again, _ = in_turns(disputed, args.seconds / 2, lambda _: None)
    again_s = {case: median(found) for case, found in again.items()}
    found = judged(calls, parameters, again_s)
    machine = describe()
    print(f"{machine['cores']} cores of {machine['cpu']}; {turns} turns in {time.monotonic() - began_s:.0f} s\n")
    met = show(found)
    off = [abs(predicted_s(case, parameters) / took_s - 1) for case, took_s in calls]
    print(f"\nall: median error {np.median(off):.0%}; * is not within {ERROR:.0%} (predictions), {LOSS:.0%} (choices)")
    if args.json:
        record = [
            {
                **{key: getattr(case, key) for key in ("collective", "algorithm", "ranks", "nbytes")},
                "measured_us": took_s * 1e6,
                "predicted_us": predicted_s(case, parameters) * 1e6,
            }
            for case, took_s in calls
        ]
        report = {
            "machine": machine,
            "turns": turns,
            "figures": as_json(parameters),
            "summary": found,
            "rows": record,
            "again_us": [
                {key: getattr(case, key) for key in ("collective", "algorithm", "ranks", "nbytes")} | {"us": s * 1e6}
                for case, s in again_s.items()
            ],
        }
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
