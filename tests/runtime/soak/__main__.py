"""Calls of every kind in the WORLDS below, beside processes that keep the cores busy, for as long as one likes.

    python -m tests.runtime.soak --minutes 30                         each world has a share of it
    python -m tests.runtime.soak --ranks 2 --mix turns --seed 7       one number of ranks, one kind of chapters
    python -m tests.runtime.soak --ranks 4 --hosts 2,2                on two hosts, which are namespaces and need root
    python -m tests.runtime.soak --ranks 2 --threads 3                three threads a rank, with a group each
    python -m tests.runtime.soak --ranks 3 --torch                    by torch.distributed

Every result is checked. What ranks hold (open staging slots, memory, descriptors, mappings, threads) is noted after
every chapter, and held to what it was after the first quarter of the world's time. The exit status is 1 where a result
was wrong, a rank waited for too long, or something grew: a line names the rank, the call, and the command that repeats
it.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from ringtree.bench.machine import describe, usable_cores
from ringtree.files.replacing import replace_with_json
from tests.runtime.soak.rank import Report, SoakSettings
from tests.runtime.soak.script import MIXES
from tests.runtime.soak.worlds import Failed, Kind, run

WORLDS = [
    (2, Kind()),
    (4, Kind()),
    (6, Kind()),
    (4, Kind(layout=(2, 2))),
    (5, Kind(layout=(2, 2, 1), threads=2)),
    (3, Kind(threads=3)),
    (3, Kind(torch=True)),
    (4, Kind(layout=(2, 2), torch=True)),
]
"""Of how many ranks, and of which kind."""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    seed = int.from_bytes(os.urandom(4), "little") if options.seed is None else options.seed
    wanted = WORLDS
    if options.ranks or options.hosts:
        kind = Kind(tuple(options.hosts), options.threads, options.torch)
        wanted = [(ranks, kind) for ranks in options.ranks or [sum(options.hosts)]]
    for _, kind in wanted:
        if why := kind.missing():
            print(f"not run: ranks {kind}: {why}", flush=True)
    wanted = [(ranks, kind) for ranks, kind in wanted if not kind.missing()]
    seconds = 60 * options.minutes / max(len(wanted), 1)
    parameters = SoakSettings(seconds, seconds / 4, seed, options.mix, options.first, options.timeout_s)
    print(f"seed {seed}: {seconds:.0f} s on each of {len(wanted)} worlds, {options.load} busy processes", flush=True)
    worlds = []
    for ranks, kind in wanted:
        try:
            reports = run(ranks, parameters, options.load, kind)
        except Failed as error:
            print(error, file=sys.stderr)
            return 1
        worlds.append(_row(ranks, kind, reports))
        for report in reports:
            print(f"{ranks} ranks {kind}: rank {report.rank} made {report.calls:,} calls; {report.end}", flush=True)
    if options.json:
        replace_with_json(
            options.json,
            {
                "machine": describe(), "date": f"{date.today():%d %B %Y}".lstrip("0"), "seed": seed,
                "minutes": options.minutes, "mix": options.mix, "busy_processes": options.load, "worlds": worlds,
            },
        )  # fmt: skip
    return 0


def _row(ranks: int, kind: Kind, reports: list[Report]) -> dict[str, Any]:
    """A world, as a record has it."""
    return {
        "ranks": ranks,
        "kind": str(kind),
        "seconds": round(reports[0].took_s, 1),
        "calls_per_s": round(reports[0].calls / reports[0].took_s, 1),
        "calls": reports[0].calls,
        "by_rank": [asdict(report) for report in reports],
    }


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.runtime.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="in all (default 30)")
    parser.add_argument(
        "--ranks", type=_numbers, default=[], metavar="N,N", help="of worlds of one kind (default: all)"
    )
    parser.add_argument("--hosts", type=_numbers, default=[], metavar="N,N", help="how many ranks each host has")
    parser.add_argument("--threads", type=int, default=1, help="of a rank (default 1)")
    parser.add_argument("--torch", action="store_true", help="by torch.distributed")
    parser.add_argument("--seed", type=int, help="of the script (default: any)")
    parser.add_argument("--mix", choices=["all", *MIXES], default="all", help="what chapters are of (default all)")
    parser.add_argument("--first", type=int, default=0, metavar="CALL", help="begin with the chapter of this call")
    parser.add_argument("--load", type=int, default=usable_cores(), metavar="N", help="busy processes (default: cores)")
    parser.add_argument("--timeout-s", type=float, default=60.0, help="of a wait (default 60)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep a record")
    return parser.parse_args(arguments)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
